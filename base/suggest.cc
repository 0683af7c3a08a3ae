#include "base/suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace motley {
namespace {

std::string folded(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != '-' && c != '_' && c != ' ') {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return result;
}

// Letters put in, left out, mistaken, or swapped with their neighbour: optimal string alignment, three rows at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before;
  std::vector<std::size_t> above;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = folded(word);
  std::string best;
  std::size_t least = wanted.size() / 3 + 1;
  for (const std::string& candidate : candidates) {
    const std::string name = folded(candidate);
    const bool begun = wanted.size() > 2 && name.starts_with(wanted);  // an ending that was left out is one change
    const std::size_t changes = begun ? std::size_t{name != wanted} : distance(wanted, name);
    if (changes < least) {
      least = changes;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string name = nearest_name(word, candidates);
  return name.empty() ? "" : " (did you mean " + name + "?)";
}

}  // namespace motley
