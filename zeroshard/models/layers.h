// The smallest parts of the models. Their parameters have no values until a ParameterFiller gives
// them some, and no memory either while an Init lives.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "zeroshard/models/options.h"

namespace zeroshard::models {

// x W^T + b, by the fastest way this device has. A `bias` that is undefined adds nothing.
torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                           const torch::Tensor& bias = {});

struct LinearShape {
  std::int64_t inputs = 1;
  std::int64_t outputs = 1;
  bool bias = true;
};

struct LinearImpl : torch::nn::Module {
  explicit LinearImpl(const LinearShape& shape);
  torch::Tensor forward(const torch::Tensor& x) const;

  torch::Tensor weight, bias;
};
TORCH_MODULE(Linear);

// Layer norm with weight and bias, or RMS norm with a weight. Sums are in fp32 for 16-bit inputs.
struct NormImpl : torch::nn::Module {
  NormImpl(NormKind kind, std::int64_t width);
  torch::Tensor forward(const torch::Tensor& x) const;

  torch::Tensor weight, bias;
  NormKind kind;
};
TORCH_MODULE(Norm);

}  // namespace zeroshard::models
