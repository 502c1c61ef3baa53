// Packing, casting, filling and accumulating of whole arrays: on an accelerator one launch for any
// number of them.
//
//   write_arrays(device, {{.to = flat, .to_dtype = DType::fp32, .from = gradient,
//                          .from_dtype = DType::bf16, .count = numel, .adds = true}});
//
// Element by element, with one IEEE operation after another (subnormals are kept): the same as
// torch's to(), mul(), copy_() and add_() one after another, bit for bit on every device. Where
// something is computed, a NaN in the result is always the same one.
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

// x = from (0 where it is null); x = x rounded to via1; x = x * factor1; x = x rounded to via2;
// x = x * factor2; to = to + x where it adds, else x, rounded to nearest even. A factor of 1 is
// left out. `to` and `from` may be one array, but must not overlap otherwise.
struct ArrayWrite {
  void* to = nullptr;
  DType to_dtype = DType::fp32;  // fp32, bf16 or fp16, as the others
  const void* from = nullptr;
  DType from_dtype = DType::fp32;
  std::int64_t count = 0;
  DType via1 = DType::fp32;
  float factor1 = 1.0F;
  DType via2 = DType::fp32;
  float factor2 = 1.0F;
  bool adds = false;
};

// In the order of the current stream of `device`, where all pointers are; on an accelerator it
// returns at once. The arrays of different entries do not overlap.
void write_arrays(Device device, const std::vector<ArrayWrite>& all);

// Brings the kernels to an accelerator (KernelModule::load says who must); nothing on the CPU.
void load_array_kernels(Device device);

}  // namespace zeroshard
