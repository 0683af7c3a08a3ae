#include "base/statistics.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace motley {

double median(std::vector<double> values) {
  MOTLEY_CHECK(!values.empty(), "the median of nothing");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace motley
