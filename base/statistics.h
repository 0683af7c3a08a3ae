#pragma once

#include <vector>

namespace motley {

// The middle value; of an even number of them the mean of the two middle ones. MOTLEY_CHECK that there is one.
double median(std::vector<double> values);

}  // namespace motley
