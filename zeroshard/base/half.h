// 16-bit floats to fp32 and back, in portable code: the same bits on every CPU. Widening is exact,
// narrowing rounds to nearest, ties to even. NaN stays NaN (quiet), infinities and signed zeros
// stay.
//
// Inline and free of branches, so that loops over them are vectorised: reductions live on that. The
// kernels of accelerators use them too.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "zeroshard/base/host_device.h"

namespace zeroshard {

// Bits of one or the other, without the branch that GCC makes of ?: around floating point.
ZS_HOST_DEVICE inline std::int32_t chosen(bool first, std::int32_t one, std::int32_t other) {
  const std::int32_t mask = -static_cast<std::int32_t>(first);
  return (one & mask) | (other & ~mask);
}

ZS_HOST_DEVICE inline float bf16_to_fp32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

ZS_HOST_DEVICE inline std::uint16_t fp32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const std::uint32_t tie_to_even = (bits >> 16U) & 1U;
  const std::uint32_t rounded = (bits + 0x7FFFU + tie_to_even) >> 16U;
  return static_cast<std::uint16_t>(is_nan ? (bits >> 16U) | 0x0040U : rounded);
}

#if defined(__CUDA_ARCH__)

// A GPU's own instructions: one instead of a dozen, with the same results; NaNs go our way.
__device__ inline float fp16_to_fp32(std::uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  const std::uint32_t nan = ((bits & 0x8000U) << 16U) | 0x7FC00000U | ((bits & 0x03FFU) << 13U);
  return (bits & 0x7FFFU) > 0x7C00U ? std::bit_cast<float>(nan) : value;
}

__device__ inline std::uint16_t fp32_to_fp16(float value) {
  std::uint16_t narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow) : "f"(value));
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nan = ((bits >> 16U) & 0x8000U) | 0x7E00U | ((bits >> 13U) & 0x03FFU);
  return (bits & 0x7FFFFFFFU) > 0x7F800000U ? static_cast<std::uint16_t>(nan) : narrow;
}

#else

ZS_HOST_DEVICE inline float fp16_to_fp32(std::uint16_t bits) {
  // Signed throughout: SSE2 compares and converts no other whole numbers.
  const std::int32_t magnitude = bits & 0x7FFF;
  const std::int32_t shifted = magnitude << 13;
  const std::int32_t normal = shifted + (112 << 23);
  const std::int32_t special = shifted | 0x7F800000 | (magnitude > 0x7C00 ? 0x00400000 : 0);
  // Subnormal: fraction * 2^-24, which fp32 holds exactly.
  const auto subnormal = std::bit_cast<std::int32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  const std::int32_t finite = chosen(magnitude < 0x0400, subnormal, normal);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  return std::bit_cast<float>(
      sign | static_cast<std::uint32_t>(chosen(magnitude >= 0x7C00, special, finite)));
}

ZS_HOST_DEVICE inline std::uint16_t fp32_to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto magnitude = static_cast<std::int32_t>(bits & 0x7FFFFFFFU);
  const std::int32_t rebased = magnitude - (112 << 23);
  const std::int32_t rounded = (rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13;
  const std::int32_t normal = std::min(rounded, 0x7C00);
  // Subnormal: next to 0.5 the last bit of an fp32 is 2^-24, so the addition itself rounds.
  const float next_to_half = std::bit_cast<float>(magnitude) + 0.5F;
  const std::int32_t subnormal = std::bit_cast<std::int32_t>(next_to_half) - 0x3F000000;
  const std::int32_t nan = 0x7E00 | ((magnitude >> 13) & 0x3FF);
  const std::int32_t number = chosen(magnitude < (113 << 23), subnormal, normal);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  return static_cast<std::uint16_t>(
      sign | static_cast<std::uint32_t>(chosen(magnitude > 0x7F800000, nan, number)));
}

#endif

}  // namespace zeroshard
