// Matrix products of 16-bit tensors on CPUs that have no instructions for them. Torch's own way is
// there up to 20 times as slow as fp32; this one widens both factors, multiplies in fp32 and rounds
// the result, which is what hardware with such instructions does.
#pragma once

#include <torch/types.h>

namespace zeroshard::models {

// Whether products with this tensor are widened: it is 16-bit, and on a CPU that has no better way.
bool widens(const torch::Tensor& tensor);

// x W^T + b. Only the 16-bit tensors are kept for backward. A `bias` that is undefined adds
// nothing.
torch::Tensor widened_linear(const torch::Tensor& x, const torch::Tensor& weight,
                             const torch::Tensor& bias);

}  // namespace zeroshard::models
