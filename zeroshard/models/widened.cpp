#include "zeroshard/models/widened.h"

#include <optional>

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "zeroshard/base/cpu_products.h"

namespace zeroshard::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor wide(const torch::Tensor& tensor) { return tensor.to(at::kFloat); }

torch::Tensor rows_of(const torch::Tensor& tensor) {
  return wide(tensor).reshape({-1, tensor.size(-1)});
}

struct WidenedLinear : torch::autograd::Function<WidenedLinear> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& weight,
                               const std::optional<torch::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return at::linear(wide(x), wide(weight), bias ? wide(*bias) : torch::Tensor())
        .to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &weight = saved[1];
    const torch::Tensor rows = rows_of(gradients[0]);
    variable_list out(3);
    if (context->needs_input_grad(0)) {
      out[0] = at::mm(rows, wide(weight)).to(x.scalar_type()).view(x.sizes());
    }
    if (context->needs_input_grad(1)) {
      out[1] = at::mm(rows.t(), rows_of(x)).to(weight.scalar_type());
    }
    const bool has_bias = context->saved_data["bias"].toBool();
    if (has_bias && context->needs_input_grad(2)) out[2] = rows.sum(0).to(weight.scalar_type());
    return out;
  }
};

}  // namespace

bool widens(const torch::Tensor& tensor) {
  if (!tensor.is_cpu()) return false;
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype == at::kBFloat16) return !cpu_multiplies(DType::bf16);
  return dtype == at::kHalf && !cpu_multiplies(DType::fp16);
}

torch::Tensor widened_linear(const torch::Tensor& x, const torch::Tensor& weight,
                             const torch::Tensor& bias) {
  return WidenedLinear::apply(x, weight,
                              bias.defined() ? std::optional<torch::Tensor>(bias) : std::nullopt);
}

}  // namespace zeroshard::models
