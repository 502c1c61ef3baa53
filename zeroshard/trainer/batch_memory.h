// Where a batch is made on the host, so that it goes to a device while the host goes on.
//
//   const at::Tensor tokens = host_batch({2, rows, length}, at::kLong, device);
//   fill(tokens);
//   model->loss(on_device(tokens, device));      // the host's tensor may be dropped at once
#pragma once

#include <ATen/core/Tensor.h>

namespace zeroshard {

// Pinned where the device is not the CPU. Torch gives such memory out again only when the copies
// from it are over, so nobody overwrites what a device still reads.
at::Tensor host_batch(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device);

// Behind what the current stream has been given so far; the same tensor on the CPU.
at::Tensor on_device(const at::Tensor& batch, at::Device device);

}  // namespace zeroshard
