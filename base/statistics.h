#pragma once

#include <vector>

namespace motley {

// The middle value; of an even number of them the mean of the two middle ones. MOTLEY_CHECK that there is one.
double median(std::vector<double> values);

// The least value that `percent` of 100 do not exceed (the nearest rank). MOTLEY_CHECK that there is one.
double percentile(std::vector<double> values, double percent);

}  // namespace motley
