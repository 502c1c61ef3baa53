#include "zeroshard/models/block.h"

#include <ATen/ops/gelu.h>

#include "zeroshard/models/device_kernels.h"

namespace zeroshard::models {

MlpImpl::MlpImpl(const GptOptions& options) {
  const std::int64_t wide = options.effective_mlp_width();
  const LinearShape widen{options.hidden, wide, options.has_biases()};
  if (options.activation == Activation::swiglu) gate = register_module("gate", Linear(widen));
  up = register_module("up", Linear(widen));
  down = register_module("down", Linear(LinearShape{wide, options.hidden, options.has_biases()}));
}

torch::Tensor MlpImpl::widen(const torch::Tensor& x) {
  if (gate) {
    const torch::Tensor gates = gate(x);
    return swiglu(gates, up(x));
  }
  return at::gelu(up(x), "tanh");
}

BlockImpl::BlockImpl(const GptOptions& options) {
  attention_norm = register_module("attention_norm", Norm(options.norm, options.hidden));
  attention = register_module("attention", Attention(options));
  mlp_norm = register_module("mlp_norm", Norm(options.norm, options.hidden));
  mlp = register_module("mlp", Mlp(options));
}

torch::Tensor BlockImpl::forward(torch::Tensor x, torch::Tensor cosine, torch::Tensor sine,
                                 KeyValues* seen, Kept kept) {
  const bool again = kept != nullptr && kept->after_attention.defined();
  const Angles angles{std::move(cosine), std::move(sine)};
  const torch::Tensor mixed = attention->mix(attention_norm(x), angles, seen);
  x = again ? known_sum(x, attention->out, mixed, kept->after_attention)
            : x + attention->out(mixed);
  if (kept != nullptr && !again) kept->after_attention = x.detach();
  const torch::Tensor wide = mlp->widen(mlp_norm(x));
  // What a second forward returns is differentiated and not read, so that x will do for it.
  return again ? known_sum(x, mlp->down, wide, x) : x + mlp->down(wide);
}

}  // namespace zeroshard::models
