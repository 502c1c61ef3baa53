#include "zeroshard/models/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include "zeroshard/base/check.h"
#include "zeroshard/models/widened.h"

namespace zeroshard::models {

AttentionImpl::AttentionImpl(const GptOptions& options)
    : heads(options.heads),
      kv_heads(options.effective_kv_heads()),
      head_width(options.head_width()) {
  const bool bias = options.has_biases();
  qkv = register_module("qkv", Linear(LinearShape{options.hidden, options.qkv_width(), bias}));
  out = register_module("out", Linear(LinearShape{options.hidden, options.hidden, bias}));
}

torch::Tensor AttentionImpl::mix(const torch::Tensor& x, const Angles& angles, KeyValues* seen) {
  const std::int64_t rows = x.size(0), length = x.size(1);
  const torch::Tensor all = qkv(x).view({rows, length, heads + 2 * kv_heads, head_width});
  std::vector<torch::Tensor> parts;
  if (angles.cosine.defined()) {
    // Queries and keys lie side by side, so one rotation does both.
    const auto rotated_and_values = all.split_with_sizes({heads + kv_heads, kv_heads}, 2);
    parts = rotate(rotated_and_values[0], angles).split_with_sizes({heads, kv_heads}, 2);
    parts.push_back(rotated_and_values[1]);
  } else {
    parts = all.split_with_sizes({heads, kv_heads, kv_heads}, 2);
  }
  const bool widened = widens(x);
  for (torch::Tensor& part : parts) {
    part = part.transpose(1, 2);
    if (widened) part = part.to(at::kFloat);
  }
  // A single position may look at all that came before, so it needs no mask.
  const bool is_causal = length > 1;
  if (seen != nullptr) {
    ZS_CHECK(length == 1 || seen->length() == 0, "{} positions behind {}", length, seen->length());
    const KeyValues::Pair whole = seen->append(parts[1], parts[2]);
    parts[1] = whole.keys;
    parts[2] = whole.values;
  }
  // Neighbouring query heads share a key head. Torch's own way is faster than repeating it here.
  const torch::Tensor mixed = at::scaled_dot_product_attention(
      parts[0], parts[1], parts[2], /*attn_mask=*/{}, /*dropout_p=*/0.0, is_causal,
      /*scale=*/{}, /*enable_gqa=*/kv_heads != heads);
  return mixed.transpose(1, 2).reshape({rows, length, heads * head_width}).to(x.scalar_type());
}

}  // namespace zeroshard::models
