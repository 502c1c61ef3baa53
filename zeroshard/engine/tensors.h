// torch's words for ours.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "zeroshard/base/dtype.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

at::ScalarType to_torch(DType dtype);
c10::Device to_torch(Device device);
Device device_of(const at::Tensor& tensor);

// Throws ConfigError naming the parameter where it has a dtype that is not trained here.
DType dtype_of(const at::Tensor& tensor, const std::string& name);

// torch gives the tensor's memory to others only when the current stream has come this far.
void record_use_here(const at::Tensor& tensor);

// The memory that the tensor lies in is about to go: it gets a copy of its own. Where there is no
// memory for that it has no elements afterwards, and false is returned.
bool give_own_memory(at::Tensor& tensor) noexcept;

// A flat tensor over memory that somebody else keeps.
at::Tensor tensor_over(void* data, std::int64_t numel, DType dtype, Device device);

}  // namespace zeroshard
