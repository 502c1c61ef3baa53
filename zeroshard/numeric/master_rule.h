// A master and its halves (halved_master.h), one at a time, on the host and in kernels.
#pragma once

#include <bit>
#include <cstdint>

#include "zeroshard/base/half.h"
#include "zeroshard/base/host_device.h"
#include "zeroshard/numeric/halved_master.h"
#include "zeroshard/numeric/lanes_scalar.h"

namespace zeroshard {

using OneHalvedMaster = kernels::HalvedMaster<kernels::ScalarLanes>;

// With the one NaN in place of another. On whole numbers, which compilers vectorise.
ZS_HOST_DEVICE inline float settled_master(float master) {
  const auto bits = std::bit_cast<std::int32_t>(master);
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  const std::int32_t one = chosen(is_nan, 0x7FC00000, bits);
  return std::bit_cast<float>(OneHalvedMaster::settled(static_cast<std::uint32_t>(one)));
}

// Of a settled master.
ZS_HOST_DEVICE inline std::uint16_t upper_half(float settled) {
  const auto bits = std::bit_cast<std::uint32_t>(settled);
  return static_cast<std::uint16_t>(OneHalvedMaster::parameter(bits));
}
ZS_HOST_DEVICE inline std::uint16_t low_half(float settled) {
  const auto bits = std::bit_cast<std::uint32_t>(settled);
  return static_cast<std::uint16_t>(OneHalvedMaster::low(bits));
}

ZS_HOST_DEVICE inline float joined_master(std::uint16_t parameter, std::uint16_t low) {
  return std::bit_cast<float>(OneHalvedMaster::joined(parameter, low));
}

// What masters.h does, by name: a kernel's argument.
enum class MasterWork { settle, halve, join, forget };

struct MasterArrays {
  MasterWork work = MasterWork::settle;
  const float* from = nullptr;
  float* whole = nullptr;
  std::uint16_t *parameter = nullptr, *low = nullptr;
  const std::uint16_t* before = nullptr;
  std::int64_t count = 0;
};

// For one element; 1 where a tie has moved.
ZS_HOST_DEVICE inline std::uint32_t settle_element(const MasterArrays& of, std::int64_t i) {
  const float master = of.from[i], settled = settled_master(master);
  if (of.work == MasterWork::settle) {
    of.whole[i] = settled;
  } else {
    of.parameter[i] = upper_half(settled);
    of.low[i] = low_half(settled);
  }
  // It has moved to an odd number, and the NaN in place of others is an even one.
  const auto now = std::bit_cast<std::uint32_t>(settled);
  return (std::bit_cast<std::uint32_t>(master) - now) & now & 1U;
}

ZS_HOST_DEVICE inline void join_element(const MasterArrays& of, std::int64_t i) {
  of.whole[i] = joined_master(of.parameter[i], of.low[i]);
}

ZS_HOST_DEVICE inline void forget_element(const MasterArrays& of, std::int64_t i) {
  of.low[i] = of.parameter[i] == of.before[i] ? of.low[i] : std::uint16_t{0};
}

}  // namespace zeroshard
