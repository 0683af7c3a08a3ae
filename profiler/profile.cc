#include "profiler/profile.h"

namespace motley {

std::string Fingerprint::device() const { return kind + "; " + model + "; threads " + std::to_string(threads); }

std::string Fingerprint::software() const { return "torch " + torch + (driver.empty() ? "" : "; driver " + driver); }

}  // namespace motley
