#pragma once

// A size as an expression of the batch size B: a polynomial with integer coefficients. torch.export writes sizes of the
// models in scope as such ("128*s77", "s77**2"); what is not polynomial (floor division, maximum) is refused with its
// text.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace motley {

class BatchExpr {
 public:
  BatchExpr() = default;                            // 0
  BatchExpr(std::int64_t constant);                 // NOLINT: a plain size is an expression
  static BatchExpr batch(std::int64_t factor = 1);  // factor * B
  // Parses "4*s77 + 2", or sympy's notation of it, where `symbol` ("s77") is the batch size. Throws
  // Error(kUnsupported) with the text.
  static BatchExpr parse(std::string_view text, std::string_view symbol);

  std::int64_t at(std::int64_t batch) const;  // throws Error(kInvalidInput) on overflow of 63 bits
  bool is_constant() const { return coefficients_.size() <= 1; }
  bool depends_on_batch() const { return !is_constant(); }
  // The k of k*B; 0 when the expression has another form.
  std::int64_t batch_factor() const;

  friend BatchExpr operator+(const BatchExpr& a, const BatchExpr& b);
  friend BatchExpr operator*(const BatchExpr& a, const BatchExpr& b);
  bool operator==(const BatchExpr&) const = default;

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
