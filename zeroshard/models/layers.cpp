#include "zeroshard/models/layers.h"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rms_norm.h>

#include "zeroshard/engine/empty_parameter.h"
#include "zeroshard/models/widened.h"

namespace zeroshard::models {
namespace {

constexpr double kNormEpsilon = 1e-5;  // GPT-2's and Llama's

}  // namespace

torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                           const torch::Tensor& bias) {
  if (widens(x)) return widened_linear(x, weight, bias);
  return at::linear(x, weight, bias);
}

LinearImpl::LinearImpl(const LinearShape& shape) {
  weight = register_parameter("weight", empty_parameter({shape.outputs, shape.inputs}));
  if (shape.bias) bias = register_parameter("bias", empty_parameter({shape.outputs}));
}

torch::Tensor LinearImpl::forward(const torch::Tensor& x) const {
  return apply_linear(x, weight, bias);
}

NormImpl::NormImpl(NormKind kind_, std::int64_t width) : kind(kind_) {
  weight = register_parameter("weight", empty_parameter({width}));
  if (kind == NormKind::layer) bias = register_parameter("bias", empty_parameter({width}));
}

torch::Tensor NormImpl::forward(const torch::Tensor& x) const {
  if (kind == NormKind::rms) return at::rms_norm(x, weight.sizes(), weight, kNormEpsilon);
  return at::layer_norm(x, weight.sizes(), weight, bias, kNormEpsilon);
}

}  // namespace zeroshard::models
