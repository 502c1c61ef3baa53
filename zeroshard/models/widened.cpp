#include "zeroshard/models/widened.h"

#include <optional>

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "zeroshard/base/held_instructions.h"

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
#if defined(__x86_64__)
  // What torch is forbidden to use is as good as absent: its products would be as slow.
  static const bool held = held_below_avx512();
  static const bool bf16 = held || (__builtin_cpu_supports("avx512bf16") == 0 &&
                                    __builtin_cpu_supports("amx-bf16") == 0);
  static const bool fp16 = held || __builtin_cpu_supports("avx512fp16") == 0;
  const at::ScalarType dtype = tensor.scalar_type();
  return dtype == at::kBFloat16 ? bf16 : dtype == at::kHalf && fp16;
#else
  return false;  // not measured elsewhere: torch's own way
#endif
}

torch::Tensor widened_linear(const torch::Tensor& x, const torch::Tensor& weight,
                             const torch::Tensor& bias) {
  return WidenedLinear::apply(x, weight,
                              bias.defined() ? std::optional<torch::Tensor>(bias) : std::nullopt);
}

}  // namespace zeroshard::models
