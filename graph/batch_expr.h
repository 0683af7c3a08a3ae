#pragma once

// A size as an expression of the batch size B: a polynomial with integer coefficients. torch.export writes sizes of the
// models in scope as such ("128*s77", "s77**2"); a minimum, maximum, floor division or remainder is taken when it comes
// to a polynomial for every batch in range, and what does not is refused with its text.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace motley {

struct BatchRange {
  std::int64_t least = 1;
  std::int64_t most = 0;  // 0: any
};

class BatchExpr {
 public:
  BatchExpr() = default;                            // 0
  BatchExpr(std::int64_t constant);                 // NOLINT: a plain size is an expression
  static BatchExpr batch(std::int64_t factor = 1);  // factor * B
  // Parses "4*s77 + 2", or sympy's notation of it, where `symbol` ("s77") is the batch size. Throws
  // Error(kUnsupported) with the text.
  static BatchExpr parse(std::string_view text, std::string_view symbol, const BatchRange& range = {});

  std::int64_t at(std::int64_t batch) const;  // throws Error(kInvalidInput) on overflow of 63 bits
  bool is_constant() const { return coefficients_.size() <= 1; }
  bool depends_on_batch() const { return !is_constant(); }
  // The k of k*B; 0 when the expression has another form.
  std::int64_t batch_factor() const;

  friend BatchExpr operator+(const BatchExpr& a, const BatchExpr& b);
  friend BatchExpr operator*(const BatchExpr& a, const BatchExpr& b);
  bool operator==(const BatchExpr&) const = default;

  // The quotient, rounded down, when it is a polynomial: the divisor is k*B^n with k > 0.
  std::optional<BatchExpr> divided_by(const BatchExpr& divisor) const;
  // Whether this is known to be at most `other` for every batch in range (for two straight lines: if and only if).
  bool at_most(const BatchExpr& other, const BatchRange& range) const;

  std::string to_string() const;  // "128*B", "B^2 + 3"
  // Coefficient of B^i at place i; no trailing zeros. For serialization.
  const std::vector<std::int64_t>& coefficients() const { return coefficients_; }
  static BatchExpr from_coefficients(std::vector<std::int64_t> coefficients);

 private:
  std::vector<std::int64_t> coefficients_;
};

using Shape = std::vector<BatchExpr>;

BatchExpr element_count(const Shape& shape);

}  // namespace motley
