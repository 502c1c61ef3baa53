// One element of an array of any float dtype, on the host and in kernels.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/half.h"
#include "zeroshard/base/host_device.h"

namespace zeroshard {

ZS_HOST_DEVICE inline float float_at(const void* array, DType dtype, std::int64_t i) {
  if (dtype == DType::fp32) return static_cast<const float*>(array)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(array)[i];
  return dtype == DType::bf16 ? bf16_to_fp32(bits) : fp16_to_fp32(bits);
}

// Rounds to nearest, ties to even.
ZS_HOST_DEVICE inline void put_float(void* array, DType dtype, std::int64_t i, float value) {
  if (dtype == DType::fp32) {
    static_cast<float*>(array)[i] = value;
  } else {
    static_cast<std::uint16_t*>(array)[i] =
        dtype == DType::bf16 ? fp32_to_bf16(value) : fp32_to_fp16(value);
  }
}

ZS_HOST_DEVICE inline float rounded_to(DType dtype, float value) {
  if (dtype == DType::fp32) return value;
  return dtype == DType::bf16 ? bf16_to_fp32(fp32_to_bf16(value))
                              : fp16_to_fp32(fp32_to_fp16(value));
}

}  // namespace zeroshard
