#include "base/error.h"

namespace motley {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw Error(ErrorKind::kInternal, message + " (a fault of motley, please report it: " + condition +
                                        " does not hold at " + file + ":" + std::to_string(line) + ")");
}

}  // namespace motley
