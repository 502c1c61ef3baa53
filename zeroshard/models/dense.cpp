#include "zeroshard/models/dense.h"

#include <utility>

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/container/modulelist.h>

#include "zeroshard/models/validate.h"

namespace zeroshard {

namespace models {

DenseLayerImpl::DenseLayerImpl(const LinearShape& shape, bool is_last_)
    : LinearImpl(shape), is_last(is_last_) {}

torch::Tensor DenseLayerImpl::forward(torch::Tensor x) {
  const torch::Tensor y = LinearImpl::forward(x);
  return is_last ? y : at::relu(y);
}

}  // namespace models

DenseImpl::DenseImpl(const DenseOptions& options_) : options(options_) {
  validate(options);
  const auto list = register_module("layers", torch::nn::ModuleList());
  std::int64_t width = options.inputs;
  for (std::size_t i = 0; i <= options.hidden.size(); ++i) {
    const bool is_last = i == options.hidden.size();
    const std::int64_t next = is_last ? options.outputs : options.hidden[i];
    layers.emplace_back(models::LinearShape{.inputs = width, .outputs = next}, is_last);
    list->push_back(layers.back());
    width = next;
  }
}

torch::Tensor DenseImpl::forward(torch::Tensor x) {
  x = x.to(layers.front()->weight.scalar_type());
  for (auto& layer : layers) x = layer->forward(std::move(x));
  return x;
}

torch::Tensor DenseImpl::loss(const torch::Tensor& x, const torch::Tensor& targets) {
  return at::mse_loss(forward(x).to(at::kFloat), targets.to(at::kFloat));
}

}  // namespace zeroshard
