// The norm's sum of squares of gradients on an accelerator: one pass over them, one small copy to
// the host, and one wait for it. The order of summation is sum_of_squares()'s, so the bits are too.
//
//   DeviceNorm norm(device);
//   norm.start(spans, scratch);   // returns at once; work that comes later may run meanwhile
//   const double sum = norm.finish();
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/layout/norm_blocks.h"
#include "zeroshard/optim/norm_span.h"

namespace zeroshard {

// Of one thread at a time.
class DeviceNorm {
 public:
  explicit DeviceNorm(Device device) : device_(device) {}

  // In the order of the device's current stream. `scratch` is memory of the device, of
  // norm_scratch_bytes() of the spans' counts; it and the pieces stay until finish() has returned.
  void start(const std::vector<NormSpan>& spans, void* scratch);

  // Blocks the host until the sum is there: over all spans, added in order. An infinity or a NaN
  // among the elements gives an infinity or a NaN.
  double finish();

 private:
  const Device device_;
  Buffer results_;                     // pinned: a double per batch
  std::vector<std::int64_t> batches_;  // of each span
  Event copied_;
};

// Brings the kernels to the device (KernelModule::load says who must).
void load_norm_kernels(Device device);

}  // namespace zeroshard
