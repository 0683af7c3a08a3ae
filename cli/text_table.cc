#include "cli/text_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"

namespace motley {

TextTable::TextTable(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    const bool right = heading.starts_with('>');
    right_.push_back(right);
    if (right) heading.erase(0, heading.find_first_not_of("> "));
  }
  rows_.push_back(std::move(headings));
}

void TextTable::add(std::vector<std::string> cells) {
  MOTLEY_CHECK(cells.size() == right_.size(),
               "a row of a table has another number of cells than the table has columns");
  rows_.push_back(std::move(cells));
}

std::string TextTable::to_string() const {
  std::vector<std::size_t> widths(right_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (right_[i] ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string formatted(const char* format, double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

std::string percent(double share) { return formatted("%.1f %%", share * 100); }
std::string signed_percent(double share) { return formatted("%+.1f %%", share * 100); }
std::string times(double ratio) { return formatted("%.2f x", ratio); }

}  // namespace motley
