// Causal self-attention with one matrix for queries, keys and values.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "zeroshard/models/key_values.h"
#include "zeroshard/models/layers.h"
#include "zeroshard/models/rotary.h"

namespace zeroshard::models {

struct AttentionImpl : torch::nn::Module {
  explicit AttentionImpl(const GptOptions& options);
  // What each position takes from those before it, to be given to `out`. x: [batch, length,
  // hidden]. Angles: of each position, or undefined. `seen`: what came before x, to which x is
  // added; then x is one position, or nothing came before. Null: there is no past.
  torch::Tensor mix(const torch::Tensor& x, const Angles& angles, KeyValues* seen);

  Linear qkv{nullptr}, out{nullptr};
  std::int64_t heads, kv_heads, head_width;
};
TORCH_MODULE(Attention);

}  // namespace zeroshard::models
