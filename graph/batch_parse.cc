#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <regex>

#include "base/error.h"
#include "graph/batch_expr.h"

namespace motley {
namespace {

// "FloorDiv(Symbol('s77', positive=True, integer=True), Integer(2))" as "FloorDiv(s77, 2)", for people.
std::string without_sympy(std::string_view text) {
  static const std::regex symbol(R"(Symbol\('(\w+)'[^)]*\))");
  static const std::regex integer(R"(Integer\((-?\d+)\))");
  return std::regex_replace(std::regex_replace(std::string(text), symbol, "$1"), integer, "$1");
}

// sum: ['-'] product (('+'|'-') product)*;  product: power ('*' power)*;  power: atom ['**' number];
// atom: number | symbol | '(' sum ')' | Symbol('name', ...) | Integer(n) | Add(sum, ...) | Mul(sum, ...) | Pow(sum, n).
// The last five are sympy's own notation, in which torch.export stores sizes. So are Min(sum, ...), Max(sum, ...),
// FloorDiv(sum, sum) and Mod(sum, sum), which are taken when they come to a polynomial for every batch in range.
class Parser {
 public:
  Parser(std::string_view text, std::string_view symbol, const BatchRange& range)
      : text_(text), symbol_(symbol), range_(range) {}

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
    } else {
      if (!is_function(name)) fail();
      result = sum();
      while (accept(",")) result = combined(name, result, sum());
    }
    if (!accept(")")) fail();
    --depth_;
    return result;
  }

  static bool is_function(std::string_view name) {
    constexpr std::array kNames{"Add", "Mul", "Pow", "Min", "Max", "FloorDiv", "CleanDiv", "Mod", "PythonMod"};
    return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
  }

  BatchExpr combined(std::string_view name, const BatchExpr& a, const BatchExpr& b) const {
    if (name == "Add") return a + b;
    if (name == "Mul") return a * b;
    if (name == "Pow" && b.is_constant()) return raise(a, b.at(0));
    if (name == "Min" || name == "Max") return chosen(name == "Min", a, b);
    const std::optional<BatchExpr> quotient = a.divided_by(b);
    if (!quotient) fail();
    if (name == "FloorDiv" || name == "CleanDiv") return *quotient;
    return a + BatchExpr(-1) * *quotient * b;  // Mod
  }

  // The lesser or greater, if it is the same one for every batch in range.
  BatchExpr chosen(bool lesser, const BatchExpr& a, const BatchExpr& b) const {
    if (a.at_most(b, range_)) return lesser ? a : b;
    if (b.at_most(a, range_)) return lesser ? b : a;
    throw Error(ErrorKind::kUnsupported,
                "size \"" + without_sympy(text_) + "\": whether " + a.to_string() + " or " + b.to_string() +
                    " is greater depends on the batch size B, so one graph cannot serve batches from " +
                    std::to_string(range_.least) + (range_.most > 0 ? " to " + std::to_string(range_.most) : " on") +
                    ": export the model with a range of batches in which it does not (torch.export.Dim's min and max)");
  }

  std::string_view text_;
  std::string_view symbol_;
  const BatchRange& range_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

BatchExpr BatchExpr::parse(std::string_view text, std::string_view symbol, const BatchRange& range) {
  return Parser(text, symbol, range).parse();
}

}  // namespace motley
