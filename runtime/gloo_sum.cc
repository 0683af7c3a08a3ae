#include "runtime/gloo_sum.h"

#include <gloo/types.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/error.h"

namespace motley {
namespace {

// Integers are summed as unsigned ones, which wrap.
template <class Number>
void sum(void* result, const void* a, const void* b, std::size_t count) {
  auto* out = static_cast<Number*>(result);
  const auto* left = static_cast<const Number*>(a);
  const auto* right = static_cast<const Number*>(b);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<Number>(left[i] + right[i]);
}

void either(void* result, const void* a, const void* b, std::size_t count) {
  auto* out = static_cast<std::uint8_t*>(result);
  const auto* left = static_cast<const std::uint8_t*>(a);
  const auto* right = static_cast<const std::uint8_t*>(b);
  for (std::size_t i = 0; i < count; ++i) out[i] = (left[i] | right[i]) != 0;
}

struct BFloat16 {
  std::uint16_t bits;
};
float widen(BFloat16 number) { return std::bit_cast<float>(std::uint32_t{number.bits} << 16); }
void narrow(float number, BFloat16& result) {
  auto bits = std::bit_cast<std::uint32_t>(number);
  // To the nearest, ties to even; a NaN's payload must not round up into infinity.
  bits = std::isnan(number) ? bits | 0x400000 : bits + 0x7fff + ((bits >> 16) & 1);
  result.bits = static_cast<std::uint16_t>(bits >> 16);
}
float widen(gloo::float16 number) { return gloo::cpu_half2float(number); }
void narrow(float number, gloo::float16& result) { result = gloo::cpu_float2half_rn(number); }

template <class Narrow>
void sum_as_float(void* result, const void* a, const void* b, std::size_t count) {
  auto* out = static_cast<Narrow*>(result);
  const auto* left = static_cast<const Narrow*>(a);
  const auto* right = static_cast<const Narrow*>(b);
  for (std::size_t i = 0; i < count; ++i) narrow(widen(left[i]) + widen(right[i]), out[i]);
}

}  // namespace

GlooSum gloo_sum(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return {sum<float>, 4};
    case DType::kFloat16:
      return {sum_as_float<gloo::float16>, 2};
    case DType::kBFloat16:
      return {sum_as_float<BFloat16>, 2};
    case DType::kFloat64:
      return {sum<double>, 8};
    case DType::kInt64:
      return {sum<std::uint64_t>, 8};
    case DType::kInt32:
      return {sum<std::uint32_t>, 4};
    case DType::kInt16:
      return {sum<std::uint16_t>, 2};
    case DType::kInt8:
    case DType::kUInt8:
      return {sum<std::uint8_t>, 1};
    case DType::kBool:
      return {either, 1};
  }
  MOTLEY_CHECK(false, "a dtype that has no sum");
  return {};
}

}  // namespace motley
