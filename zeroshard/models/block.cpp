#include "zeroshard/models/block.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

namespace zeroshard::models {

MlpImpl::MlpImpl(const GptOptions& options) {
  const std::int64_t wide = options.effective_mlp_width();
  const LinearShape widen{options.hidden, wide, options.has_biases()};
  if (options.activation == Activation::swiglu) gate = register_module("gate", Linear(widen));
  up = register_module("up", Linear(widen));
  down = register_module("down", Linear(LinearShape{wide, options.hidden, options.has_biases()}));
}

torch::Tensor MlpImpl::forward(const torch::Tensor& x) {
  if (gate) return down(at::silu(gate(x)) * up(x));
  return down(at::gelu(up(x), "tanh"));
}

BlockImpl::BlockImpl(const GptOptions& options) {
  attention_norm = register_module("attention_norm", Norm(options.norm, options.hidden));
  attention = register_module("attention", Attention(options));
  mlp_norm = register_module("mlp_norm", Norm(options.norm, options.hidden));
  mlp = register_module("mlp", Mlp(options));
}

torch::Tensor BlockImpl::forward(torch::Tensor x, torch::Tensor cosine, torch::Tensor sine,
                                 KeyValues* seen) {
  x = x + attention(attention_norm(x), Angles{std::move(cosine), std::move(sine)}, seen);
  return x + mlp(mlp_norm(x));
}

}  // namespace zeroshard::models
