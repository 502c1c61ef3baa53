// A dense network: linear layers, ReLU between them, mean squared error. Each layer is a unit.
#pragma once

#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "zeroshard/engine/unit.h"
#include "zeroshard/models/layers.h"
#include "zeroshard/models/options.h"

namespace zeroshard {

namespace models {

struct DenseLayerImpl : LinearImpl {
  DenseLayerImpl(const LinearShape& shape, bool is_last);
  torch::Tensor forward(torch::Tensor x);

  bool is_last;
};

}  // namespace models

struct DenseImpl : torch::nn::Module {
  explicit DenseImpl(const DenseOptions& options);

  // [batch, inputs] -> [batch, outputs], in the parameters' dtype.
  torch::Tensor forward(torch::Tensor x);
  // Mean squared error in fp32.
  torch::Tensor loss(const torch::Tensor& x, const torch::Tensor& targets);

  const DenseOptions options;
  std::vector<Unit<models::DenseLayerImpl>> layers;
};
TORCH_MODULE(Dense);

}  // namespace zeroshard
