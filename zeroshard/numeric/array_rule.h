// The arithmetic of an ArrayWrite on one element, the same text for the host and for kernels; and
// what a kernel's table holds.
#pragma once

#include "zeroshard/base/host_device.h"
#include "zeroshard/numeric/arrays.h"
#include "zeroshard/numeric/chunks.h"
#include "zeroshard/numeric/float_at.h"

namespace zeroshard {

struct PlacedWrite {
  ArrayWrite write;
  ArrayCut cut;
};

// As many as fit into the arguments of a kernel, which need no table in the device's memory.
struct FewWrites {
  static constexpr int kMost = 32;
  PlacedWrite entries[kMost];
};

ZS_HOST_DEVICE inline bool computes(const ArrayWrite& write) {
  return write.adds || write.factor1 != 1.0F || write.factor2 != 1.0F;
}

// `value` is from's element; `old` is to's, read only where it adds.
ZS_HOST_DEVICE inline float written_value(const ArrayWrite& write, float value, float old) {
  float x = rounded_to(write.via1, value);
  if (write.factor1 != 1.0F) x = x * write.factor1;
  x = rounded_to(write.via2, x);
  if (write.factor2 != 1.0F) x = x * write.factor2;
  if (write.adds) x = old + x;
  // Which NaN an operation on two gives depends on the device. We write one.
  return computes(write) && x != x ? std::bit_cast<float>(0x7FC00000U) : x;
}

ZS_HOST_DEVICE inline void write_element(const ArrayWrite& write, std::int64_t i) {
  const float value = write.from == nullptr ? 0.0F : float_at(write.from, write.from_dtype, i);
  const float old = write.adds ? float_at(write.to, write.to_dtype, i) : 0.0F;
  put_float(write.to, write.to_dtype, i, written_value(write, value, old));
}

}  // namespace zeroshard
