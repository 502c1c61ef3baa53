#include "zeroshard/trainer/batch_memory.h"

#include <ATen/ops/empty.h>

namespace zeroshard {

at::Tensor host_batch(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  return at::empty(sizes, at::TensorOptions(dtype).pinned_memory(!device.is_cpu()));
}

at::Tensor on_device(const at::Tensor& batch, at::Device device) {
  return batch.to(device, /*non_blocking=*/true);
}

}  // namespace zeroshard
