#include "zeroshard/models/residual.h"

#include <optional>

#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

namespace zeroshard::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor flat_rows(const torch::Tensor& tensor) {
  return tensor.reshape({-1, tensor.size(-1)});
}

struct KnownSum : torch::autograd::Function<KnownSum> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& /*x*/,
                               const torch::Tensor& h, const torch::Tensor& weight,
                               const std::optional<torch::Tensor>& bias,
                               const torch::Tensor& known) {
    context->save_for_backward({h, weight});
    context->saved_data["bias"] = bias.has_value();
    return known.detach();  // a tensor of its own, which the graph may hang on to
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor &h = saved[0], &weight = saved[1];
    const torch::Tensor rows = flat_rows(gradients[0]);
    variable_list out(5);
    out[0] = gradients[0];
    if (context->needs_input_grad(1)) out[1] = at::mm(rows, weight).view(h.sizes());
    if (context->needs_input_grad(2)) out[2] = at::mm(rows.t(), flat_rows(h));
    const bool has_bias = context->saved_data["bias"].toBool();
    if (has_bias && context->needs_input_grad(3)) out[3] = rows.sum(0);
    return out;
  }
};

}  // namespace

torch::Tensor known_sum(const torch::Tensor& x, const Linear& linear, const torch::Tensor& h,
                        const torch::Tensor& known) {
  const torch::Tensor& bias = linear->bias;
  return KnownSum::apply(x, h, linear->weight,
                         bias.defined() ? std::optional<torch::Tensor>(bias) : std::nullopt,
                         known.detach());
}

}  // namespace zeroshard::models
