// Numbers out of the bytes of a file, and back: fp32, bf16 and fp16, which need not be aligned
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/half.h"

namespace zeroshard {

inline bool is_float(const std::optional<DType>& dtype) {
  return dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
}

inline float float_at(const std::byte* at, DType dtype) {
  if (dtype == DType::fp32) {
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return dtype == DType::bf16 ? bf16_to_fp32(bits) : fp16_to_fp32(bits);
}

// Rounded to nearest even.
inline void put_float(std::byte* at, DType dtype, float value) {
  if (dtype == DType::fp32) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits = dtype == DType::bf16 ? fp32_to_bf16(value) : fp32_to_fp16(value);
  std::memcpy(at, &bits, sizeof(bits));
}

}  // namespace zeroshard
