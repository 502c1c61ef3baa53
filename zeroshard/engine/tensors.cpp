#include "zeroshard/engine/tensors.h"

#include <exception>

#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "zeroshard/base/error.h"

namespace zeroshard {

at::ScalarType to_torch(DType dtype) {
  switch (dtype) {
    case DType::fp32: return at::kFloat;
    case DType::bf16: return at::kBFloat16;
    case DType::fp16: return at::kHalf;
    case DType::int32: return at::kInt;
    case DType::uint8: return at::kByte;
  }
  return at::kFloat;
}

c10::Device to_torch(Device device) {
  if (device.kind == DeviceKind::cpu) return {c10::DeviceType::CPU};
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device.index)};
}

Device device_of(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return kCpu;
  return {DeviceKind::cuda, tensor.device().index()};
}

DType dtype_of(const at::Tensor& tensor, const std::string& name) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return DType::fp32;
    case at::kBFloat16: return DType::bf16;
    case at::kHalf: return DType::fp16;
    default:
      throw ConfigError({.what = "a parameter has a dtype that is not trained here",
                         .value = name + " is " + c10::toString(tensor.scalar_type()),
                         .remedy = "make it fp32, bf16 or fp16, or register it as a buffer"});
  }
}

void record_use_here(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(tensor.device().type());
  tensor.record_stream(guard.getStream(tensor.device()));
}

bool give_own_memory(at::Tensor& tensor) noexcept {
  const at::Tensor values = tensor.data();
  try {
    tensor.set_data(values.clone());
    return true;
  } catch (const std::exception&) {
    tensor.set_data(values.new_empty({0}));
    return false;
  }
}

at::Tensor tensor_over(void* data, std::int64_t numel, DType dtype, Device device) {
  const auto options = at::TensorOptions().dtype(to_torch(dtype)).device(to_torch(device));
  return at::for_blob(data, {numel}).options(options).target_device(to_torch(device)).make_tensor();
}

}  // namespace zeroshard
