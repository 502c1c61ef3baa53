#include "zeroshard/base/half.h"

namespace zeroshard {
namespace {

constexpr std::uint32_t kFp32Infinity = 0x7F800000U;
constexpr std::uint32_t kFp16Infinity = 0x7C00U;

// value / 2^shift to the nearest whole number, ties to even.
std::uint32_t shift_right_rounded(std::uint32_t value, unsigned shift) {
  const std::uint32_t half = 1U << (shift - 1U);
  const std::uint32_t rest = value & ((1U << shift) - 1U);
  const std::uint32_t quotient = value >> shift;
  const bool up = rest > half || (rest == half && (quotient & 1U) != 0);
  return quotient + (up ? 1U : 0U);
}

}  // namespace

float fp16_to_fp32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0x1FU) {
    const std::uint32_t quiet = fraction != 0 ? 0x00400000U : 0U;
    return std::bit_cast<float>(sign | kFp32Infinity | quiet | (fraction << 13U));
  }
  if (exponent == 0) {
    // Subnormal: fraction * 2^-24, which fp32 holds exactly.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
}

std::uint16_t fp32_to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= kFp32Infinity) {
    const std::uint32_t nan = magnitude > kFp32Infinity ? 0x0200U | ((bits >> 13U) & 0x3FFU) : 0U;
    return static_cast<std::uint16_t>(sign | kFp16Infinity | nan);
  }
  const std::uint32_t exponent = magnitude >> 23U;
  if (exponent >= 113U) {  // normal in fp16, or too large for it
    const std::uint32_t rounded = shift_right_rounded(magnitude - (112U << 23U), 13U);
    return static_cast<std::uint16_t>(sign | (rounded < kFp16Infinity ? rounded : kFp16Infinity));
  }
  if (exponent < 102U) return static_cast<std::uint16_t>(sign);  // below half the least subnormal
  const std::uint32_t fraction = (magnitude & 0x7FFFFFU) | 0x800000U;
  return static_cast<std::uint16_t>(sign | shift_right_rounded(fraction, 126U - exponent));
}

}  // namespace zeroshard
