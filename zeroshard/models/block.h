// A transformer block: attention, then the MLP, each behind its norm and beside the residual.
#pragma once

#include <torch/nn/module.h>

#include "zeroshard/models/attention.h"
#include "zeroshard/models/layers.h"
#include "zeroshard/models/residual.h"

namespace zeroshard::models {

// gelu: down(gelu(up(x))), with GPT-2's tanh form. swiglu: down(silu(gate(x)) * up(x)).
struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(const GptOptions& options);
  // All of it but the last product, `down`.
  torch::Tensor widen(const torch::Tensor& x);

  Linear gate{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Mlp);

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const GptOptions& options);
  // `seen`: see Attention; null in training. `kept`: what a second forward of this use need not
  // compute again, or null.
  torch::Tensor forward(torch::Tensor x, torch::Tensor cosine, torch::Tensor sine, KeyValues* seen,
                        Kept kept);

  Norm attention_norm{nullptr};
  Attention attention{nullptr};
  Norm mlp_norm{nullptr};
  Mlp mlp{nullptr};
};

}  // namespace zeroshard::models
