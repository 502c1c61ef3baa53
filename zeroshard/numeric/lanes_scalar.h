// One float: what the wider lanes_*.h do to each of theirs. All have the same members, and every
// operation is the IEEE one, rounded by itself: no fused multiply-add anywhere, so that this one is
// as fast as a CPU without it allows, and equal to the others. It is also what a thread of an
// accelerator computes with (cuda/*.cu).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "zeroshard/base/half.h"
#include "zeroshard/base/host_device.h"

namespace zeroshard::kernels {

struct ScalarLanes {
  static constexpr std::int64_t kWidth = 1;
  using Mask = bool;
  using Bits = std::uint32_t;

  float value;

  ZS_HOST_DEVICE static ScalarLanes broadcast(float value) { return {value}; }
  ZS_HOST_DEVICE static ScalarLanes load(const float* from) { return {*from}; }
  ZS_HOST_DEVICE static ScalarLanes load_bf16(const std::uint16_t* from) {
    return {bf16_to_fp32(*from)};
  }
  ZS_HOST_DEVICE static ScalarLanes load_fp16(const std::uint16_t* from) {
    return {fp16_to_fp32(*from)};
  }
  ZS_HOST_DEVICE void store(float* to) const { *to = value; }
  // fp32_to_bf16 without its branch, which keeps the compiler from vectorising the loop around it.
  ZS_HOST_DEVICE void store_bf16(std::uint16_t* to) const {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t quiet = (bits >> 16U) | 0x0040U;
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
    *to = static_cast<std::uint16_t>(value != value ? quiet : rounded);
  }
  ZS_HOST_DEVICE void store_fp16(std::uint16_t* to) const { *to = fp32_to_fp16(value); }

  // The bits of each lane as a whole number without sign; of 16-bit ones the upper half is zero.
  ZS_HOST_DEVICE static ScalarLanes of_bits(Bits bits) { return {std::bit_cast<float>(bits)}; }
  ZS_HOST_DEVICE Bits bits() const { return std::bit_cast<Bits>(value); }
  ZS_HOST_DEVICE static Bits load_half(const std::uint16_t* from) { return *from; }
  ZS_HOST_DEVICE static void store_half(std::uint16_t* to, Bits bits) {
    *to = static_cast<std::uint16_t>(bits);
  }

  // The last eight bits of each lane; and read with their sign, as numbers of 32 bits.
  static void store_byte(std::int8_t* to, Bits bits) { *to = static_cast<std::int8_t>(bits); }
  static Bits load_byte(const std::int8_t* from) {
    return static_cast<Bits>(static_cast<std::int32_t>(*from));
  }
  // Whether some lane is not zero.
  static bool any(Bits bits) { return bits != 0; }

  // A cache line of 16-bit elements, written past the caches where the CPU can. Other threads see
  // it after end_streaming().
  static void stream_line(std::uint16_t* to, const std::uint16_t* line) {
    for (int i = 0; i < 32; ++i) to[i] = line[i];
  }
  static void end_streaming() {}

  // One fp64 sum of squares per lane. The square of an fp32 is exact in fp64.
  struct Squares {
    double sum = 0.0;

    ZS_HOST_DEVICE void add(ScalarLanes lanes) {
      const double wide = lanes.value;
      sum += wide * wide;
    }
    void store(double* to) const { *to = sum; }
  };
};

ZS_HOST_DEVICE inline ScalarLanes operator+(ScalarLanes a, ScalarLanes b) {
  return {a.value + b.value};
}
ZS_HOST_DEVICE inline ScalarLanes operator-(ScalarLanes a, ScalarLanes b) {
  return {a.value - b.value};
}
ZS_HOST_DEVICE inline ScalarLanes operator*(ScalarLanes a, ScalarLanes b) {
  return {a.value * b.value};
}
ZS_HOST_DEVICE inline ScalarLanes operator/(ScalarLanes a, ScalarLanes b) {
  return {a.value / b.value};
}
ZS_HOST_DEVICE inline ScalarLanes sqrt(ScalarLanes a) { return {std::sqrt(a.value)}; }
ZS_HOST_DEVICE inline ScalarLanes abs(ScalarLanes a) { return {std::fabs(a.value)}; }

// False where either is NaN.
ZS_HOST_DEVICE inline bool less(ScalarLanes a, ScalarLanes b) { return a.value < b.value; }
ZS_HOST_DEVICE inline bool is_nan(ScalarLanes a) { return a.value != a.value; }
ZS_HOST_DEVICE inline ScalarLanes select(bool mask, ScalarLanes yes, ScalarLanes no) {
  return mask ? yes : no;
}

}  // namespace zeroshard::kernels
