// What the models compute on a GPU by kernels of our own, in one pass over 16-bit tensors. Each has
// a plain form in torch's operators, which every other tensor takes.
#pragma once

#include <cstdint>

#include <torch/types.h>

namespace zeroshard::models {

// Whether there is a kernel for tensors like this one: 16-bit, contiguous, and on a GPU.
bool has_kernel(const torch::Tensor& tensor);

// The loss of each row of logits [rows, vocabulary], which are overwritten with their gradient of
// the summed losses, times `scale`. Rows whose target is `ignored` have no loss.
torch::Tensor consume_rows(const torch::Tensor& logits, const torch::Tensor& targets,
                           std::int64_t ignored, double scale);

// silu(gate) * up, rounded once.
torch::Tensor swiglu(const torch::Tensor& gate, const torch::Tensor& up);

}  // namespace zeroshard::models
