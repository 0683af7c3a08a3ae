#include "graph/batch_expr.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <regex>

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

// "FloorDiv(Symbol('s77', positive=True, integer=True), Integer(2))" as "FloorDiv(s77, 2)", for people.
std::string without_sympy(std::string_view text) {
  static const std::regex symbol(R"(Symbol\('(\w+)'[^)]*\))");
  static const std::regex integer(R"(Integer\((-?\d+)\))");
  return std::regex_replace(std::regex_replace(std::string(text), symbol, "$1"), integer, "$1");
}

// sum: ['-'] product (('+'|'-') product)*;  product: power ('*' power)*;  power: atom ['**' number];
// atom: number | symbol | '(' sum ')' | Symbol('name', ...) | Integer(n) | Add(sum, ...) | Mul(sum, ...) | Pow(sum, n).
// The last five are sympy's own notation, in which torch.export stores sizes.
class Parser {
 public:
  Parser(std::string_view text, std::string_view symbol) : text_(text), symbol_(symbol) {}

  BatchExpr parse() {
    const BatchExpr result = sum();
    if (skip_spaces() != text_.size()) fail();
    return result;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::kUnsupported, "size \"" + without_sympy(text_) + "\" is not a polynomial of the batch size" +
                                             (symbol_.empty() ? std::string() : " " + std::string(symbol_)));
  }

  std::size_t skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_;
  }

  bool accept(std::string_view token) {
    skip_spaces();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  std::int64_t number() {
    skip_spaces();
    std::int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [stop, failure] = std::from_chars(text_.data() + at_, end, value);
    if (failure != std::errc()) fail();
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }

  BatchExpr sum() {
    BatchExpr result = accept("-") ? BatchExpr(-1) * product() : product();
    for (;;) {
      if (accept("+")) {
        result = result + product();
      } else if (accept("-")) {
        result = result + BatchExpr(-1) * product();
      } else {
        return result;
      }
    }
  }

  BatchExpr product() {
    BatchExpr result = power();
    while (accept("*")) result = result * power();
    return result;
  }

  BatchExpr power() {
    const BatchExpr base = atom();
    if (!accept("**")) return base;
    return raise(base, number());
  }

  BatchExpr raise(const BatchExpr& base, std::int64_t exponent) const {
    if (exponent < 0 || exponent > 16) fail();
    BatchExpr result(1);
    for (std::int64_t i = 0; i < exponent; ++i) result = result * base;
    return result;
  }

  BatchExpr atom() {
    if (accept("(")) {
      if (++depth_ > 100) fail();
      const BatchExpr inner = sum();
      if (!accept(")")) fail();
      --depth_;
      return inner;
    }
    skip_spaces();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) return number();
    std::size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    at_ = end;
    if (accept("(")) return call(name);
    return named(name);
  }

  BatchExpr named(std::string_view name) const {
    if (symbol_.empty() || name != symbol_) fail();
    return BatchExpr::batch();
  }

  // What follows "name(" up to its ")".
  BatchExpr call(std::string_view name) {
    if (++depth_ > 100) fail();
    BatchExpr result;
    if (name == "Symbol") {
      if (!accept("'")) fail();
      const std::size_t quote = text_.find('\'', at_);
      const std::size_t close = text_.find(')', at_);
      if (quote == std::string_view::npos || close == std::string_view::npos || close < quote) fail();
      result = named(text_.substr(at_, quote - at_));
      at_ = close;
    } else if (name == "Integer") {
      result = sum();
    } else if (name == "Pow") {
      const BatchExpr base = sum();
      if (!accept(",")) fail();
      const BatchExpr exponent = sum();
      if (!exponent.is_constant()) fail();
      result = raise(base, exponent.at(0));
    } else if (name == "Add" || name == "Mul") {
      result = sum();
      while (accept(",")) result = name == "Add" ? result + sum() : result * sum();
    } else {
      fail();
    }
    if (!accept(")")) fail();
    --depth_;
    return result;
  }

  std::string_view text_;
  std::string_view symbol_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

BatchExpr::BatchExpr(std::int64_t constant) {
  if (constant != 0) coefficients_ = {constant};
}

BatchExpr BatchExpr::batch(std::int64_t factor) { return from_coefficients({0, factor}); }

BatchExpr BatchExpr::parse(std::string_view text, std::string_view symbol) { return Parser(text, symbol).parse(); }

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
