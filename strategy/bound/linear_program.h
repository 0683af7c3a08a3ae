#pragma once

// A linear program, solved by COIN-OR's Clp (https://github.com/coin-or/Clp): minimise cost * x subject to
// lower <= row * x <= upper for each row and lower <= x <= upper for each column. Factors should not be far from 1.

#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace motley {

struct Term {
  int column = 0;
  double factor = 0;
};

// Not thread-safe; objects are independent of each other.
class LinearProgram {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  LinearProgram();
  ~LinearProgram();
  LinearProgram(const LinearProgram&) = delete;
  LinearProgram& operator=(const LinearProgram&) = delete;

  int add_column(double cost, double lower, double upper);  // its number; all come before the first solve()
  // Its number. Each column stands at most once in `terms`. Rows that are added after a solve() cost the next one
  // little.
  int add_row(std::span<const Term> terms, double lower, double upper);

  bool solve();  // false: not feasible, or unbounded

  // Of the last solve().
  double value(int column) const;
  double dual(int row) const;  // how much the least cost rises when the row's bounds rise by 1

 private:
  struct Solver;
  std::unique_ptr<Solver> solver_;
};

}  // namespace motley
