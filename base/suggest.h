#pragma once

// "Did you mean": the name that a mistyped word was most likely meant to be.

#include <string>
#include <string_view>
#include <vector>

namespace motley {

// The candidate with the fewest insertions, deletions and substitutions from `word` (case, '-', '_' and ' ' apart; an
// ending left out counts once), the first of equals; empty when more than a third of the word would have to change.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

// " (did you mean NAME?)" or nothing, to append to a message.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace motley
