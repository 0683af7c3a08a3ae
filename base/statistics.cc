#include "base/statistics.h"

#include <algorithm>
#include <cmath>
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

double percentile(std::vector<double> values, double percent) {
  MOTLEY_CHECK(!values.empty(), "a percentile of nothing");
  const double rank = std::ceil(percent / 100 * static_cast<double>(values.size()));
  const auto place = std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(rank) - 1, 0, std::ssize(values) - 1);
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

}  // namespace motley
