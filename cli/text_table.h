#pragma once

// Tables for a terminal: columns as wide as their widest cell, numbers to the right; and numbers for their cells.

#include <string>
#include <vector>

namespace motley {

class TextTable {
 public:
  // A heading that begins with '>' makes its column right-aligned ("> time"); the mark is not printed.
  explicit TextTable(std::vector<std::string> headings);
  void add(std::vector<std::string> cells);  // as many as there are headings
  std::string to_string() const;             // ends in a newline

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

std::string formatted(const char* format, double value);  // as printf does, in up to 31 characters
std::string percent(double share);                        // "12.3 %"
std::string signed_percent(double share);                 // "+12.3 %"
std::string times(double ratio);                          // "1.50 x"

}  // namespace motley
