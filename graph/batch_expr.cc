#include "graph/batch_expr.h"

#include <algorithm>

#include "base/error.h"

namespace motley {
namespace {

[[noreturn]] void overflow(const std::string& expression) {
  throw Error(ErrorKind::kInvalidInput, expression + ": a size beyond 63 bits");
}

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) overflow(std::to_string(a) + " + " + std::to_string(b));
  return sum;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) overflow(std::to_string(a) + " * " + std::to_string(b));
  return product;
}

}  // namespace

BatchExpr::BatchExpr(std::int64_t constant) {
  if (constant != 0) coefficients_ = {constant};
}

BatchExpr BatchExpr::batch(std::int64_t factor) { return from_coefficients({0, factor}); }

BatchExpr BatchExpr::from_coefficients(std::vector<std::int64_t> coefficients) {
  while (!coefficients.empty() && coefficients.back() == 0) coefficients.pop_back();
  BatchExpr result;
  result.coefficients_ = std::move(coefficients);
  return result;
}

std::int64_t BatchExpr::at(std::int64_t batch) const {
  std::int64_t value = 0;
  for (auto coefficient = coefficients_.rbegin(); coefficient != coefficients_.rend(); ++coefficient) {
    std::int64_t scaled;
    if (__builtin_mul_overflow(value, batch, &scaled) || __builtin_add_overflow(scaled, *coefficient, &value)) {
      overflow(to_string() + " at batch " + std::to_string(batch));
    }
  }
  return value;
}

std::int64_t BatchExpr::batch_factor() const {
  return coefficients_.size() == 2 && coefficients_[0] == 0 ? coefficients_[1] : 0;
}

BatchExpr operator+(const BatchExpr& a, const BatchExpr& b) {
  std::vector<std::int64_t> sum(std::max(a.coefficients_.size(), b.coefficients_.size()));
  for (std::size_t i = 0; i < a.coefficients_.size(); ++i) sum[i] = a.coefficients_[i];
  for (std::size_t i = 0; i < b.coefficients_.size(); ++i) sum[i] = checked_add(sum[i], b.coefficients_[i]);
  return BatchExpr::from_coefficients(std::move(sum));
}

BatchExpr operator*(const BatchExpr& a, const BatchExpr& b) {
  if (a.coefficients_.empty() || b.coefficients_.empty()) return {};
  std::vector<std::int64_t> product(a.coefficients_.size() + b.coefficients_.size() - 1);
  for (std::size_t i = 0; i < a.coefficients_.size(); ++i) {
    for (std::size_t j = 0; j < b.coefficients_.size(); ++j) {
      product[i + j] = checked_add(product[i + j], checked_multiply(a.coefficients_[i], b.coefficients_[j]));
    }
  }
  return BatchExpr::from_coefficients(std::move(product));
}

std::optional<BatchExpr> BatchExpr::divided_by(const BatchExpr& divisor) const {
  const std::vector<std::int64_t>& by = divisor.coefficients_;
  if (by.empty() || by.back() <= 0) return std::nullopt;
  const std::size_t powers = by.size() - 1;
  if (std::any_of(by.begin(), by.end() - 1, [](std::int64_t c) { return c != 0; })) return std::nullopt;
  std::vector<std::int64_t> quotient;
  for (std::size_t i = 0; i < coefficients_.size(); ++i) {
    const std::int64_t coefficient = coefficients_[i];
    if (i < powers) {
      if (coefficient != 0) return std::nullopt;
      continue;
    }
    std::int64_t whole = coefficient / by.back();
    const std::int64_t rest = coefficient % by.back();
    if (rest != 0 && (i > 0 || powers > 0)) return std::nullopt;
    if (rest < 0) --whole;
    quotient.push_back(whole);
  }
  return from_coefficients(std::move(quotient));
}

bool BatchExpr::at_most(const BatchExpr& other, const BatchRange& range) const {
  const BatchExpr difference = other + BatchExpr(-1) * *this;
  if (range.most > 0 && difference.coefficients_.size() <= 2) {
    return difference.at(range.least) >= 0 && difference.at(range.most) >= 0;
  }
  BatchExpr beyond;  // the difference as a polynomial of what the batch exceeds `least` by
  const BatchExpr shifted = batch() + range.least;
  for (std::size_t i = difference.coefficients_.size(); i-- > 0;)
    beyond = beyond * shifted + difference.coefficients_[i];
  return std::all_of(beyond.coefficients_.begin(), beyond.coefficients_.end(), [](std::int64_t c) { return c >= 0; });
}

std::string BatchExpr::to_string() const {
  std::string text;
  for (std::size_t power = coefficients_.size(); power-- > 0;) {
    const std::int64_t coefficient = coefficients_[power];
    if (coefficient == 0) continue;
    std::string digits = std::to_string(coefficient);
    if (coefficient < 0) digits.erase(0, 1);
    text += text.empty() ? (coefficient < 0 ? "-" : "") : (coefficient < 0 ? " - " : " + ");
    if (power == 0 || digits != "1") text += digits;
    if (power > 0 && digits != "1") text += "*";
    if (power > 0) text += "B";
    if (power > 1) text += "^" + std::to_string(power);
  }
  return text.empty() ? "0" : text;
}

BatchExpr element_count(const Shape& shape) {
  BatchExpr count(1);
  for (const BatchExpr& size : shape) count = count * size;
  return count;
}

}  // namespace motley
