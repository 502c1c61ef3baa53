// 16-bit floats to fp32 and back, in portable code: the same bits on every CPU. Widening is exact,
// narrowing rounds to nearest, ties to even. NaN stays NaN (quiet), infinities and signed zeros
// stay.
#pragma once

#include <bit>
#include <cstdint>

namespace zeroshard {

inline float bf16_to_fp32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

inline std::uint16_t fp32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  if (is_nan) return static_cast<std::uint16_t>((bits >> 16U) | 0x0040U);
  const std::uint32_t tie_to_even = (bits >> 16U) & 1U;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + tie_to_even) >> 16U);
}

float fp16_to_fp32(std::uint16_t bits);
std::uint16_t fp32_to_fp16(float value);

}  // namespace zeroshard
