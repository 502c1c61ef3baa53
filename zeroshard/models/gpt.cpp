#include "zeroshard/models/gpt.h"

#include <utility>

#include <ATen/ops/embedding.h>
#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/engine/empty_parameter.h"
#include "zeroshard/models/cross_entropy.h"
#include "zeroshard/models/validate.h"

namespace zeroshard {
namespace {

const GptOptions& validated(const GptOptions& options) {
  validate(options);
  return options;
}

// `seen`: tokens before these.
void check_tokens(const torch::Tensor& tokens, std::int64_t seen, const GptOptions& options) {
  if (tokens.dim() == 2 && tokens.scalar_type() == at::kLong &&
      seen + tokens.size(1) <= options.sequence) {
    return;
  }
  throw ConfigError(
      {.what = "the model was given tokens that it cannot read",
       .value = fmt::format("{} of shape [{}]", c10::toString(tokens.scalar_type()),
                            fmt::join(tokens.sizes().begin(), tokens.sizes().end(), ", ")),
       .remedy = fmt::format("give int64 numbers [batch, length], length up to {}",
                             options.sequence - seen)});
}

}  // namespace

namespace models {

EmbeddingImpl::EmbeddingImpl(const GptOptions& options) {
  tokens = register_parameter("tokens", empty_parameter({options.vocabulary, options.hidden}));
  if (options.positions == Positions::rotary) return;
  positions = register_parameter("positions", empty_parameter({options.sequence, options.hidden}));
}

torch::Tensor EmbeddingImpl::forward(torch::Tensor token_ids, std::int64_t first) {
  const torch::Tensor x = at::embedding(tokens, token_ids);
  return positions.defined() ? x + positions.narrow(0, first, token_ids.size(1)) : x;
}

HeadImpl::HeadImpl(const GptOptions& options) {
  norm = register_module("norm", Norm(options.norm, options.hidden));
  if (options.tied_head) return;
  out = register_module("out", Linear(LinearShape{options.hidden, options.vocabulary, false}));
}

torch::Tensor HeadImpl::forward(torch::Tensor x, torch::Tensor tied, torch::Tensor targets) {
  x = norm(x);
  torch::Tensor logits = tied.defined() ? apply_linear(x, tied) : out(x);
  if (!targets.defined()) return logits;
  if (logits.is_cpu()) logits = logits.to(at::kFloat);
  return consuming_cross_entropy(logits.view({-1, logits.size(-1)}), targets.reshape({-1}),
                                 kIgnoredTarget);
}

}  // namespace models

GptImpl::GptImpl(const GptOptions& options_) : options(validated(options_)), angles_(options_) {
  embedding = options.tied_head ? std::make_shared<models::EmbeddingImpl>(options)
                                : Unit<models::EmbeddingImpl>(options).ptr();
  register_module("embedding", embedding);
  const auto list = register_module("blocks", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < options.layers; ++i) {
    blocks.emplace_back(options);
    blocks.back()->checkpoint_activations(options.checkpoint_activations);
    list->push_back(blocks.back());
  }
  head = register_module("head", Unit<models::HeadImpl>(options));
}

torch::Tensor GptImpl::forward(const torch::Tensor& tokens) {
  return head->forward(run_blocks(tokens), tied_table(), {});
}

torch::Tensor GptImpl::loss(const torch::Tensor& tokens, const torch::Tensor& targets) {
  return head->forward(run_blocks(tokens), tied_table(), targets);
}

torch::Tensor GptImpl::next_logits(const torch::Tensor& tokens) {
  return logits_of_last(run_blocks(tokens));
}

torch::Tensor GptImpl::next_logits(const torch::Tensor& tokens, KeyValueCache& cache) {
  return logits_of_last(run_blocks(tokens, &cache));
}

torch::Tensor GptImpl::logits_of_last(const torch::Tensor& hidden) {
  return head->forward(hidden.select(1, hidden.size(1) - 1), tied_table(), {});
}

torch::Tensor GptImpl::run_blocks(const torch::Tensor& tokens, KeyValueCache* cache) {
  const std::int64_t seen = cache == nullptr ? 0 : cache->length();
  check_tokens(tokens, seen, options);
  torch::Tensor x = embedding->forward(tokens, seen);
  const models::Angles angles = angles_.of(seen, tokens.size(1), x.options());
  const bool keeps = options.checkpoint_activations && !x.is_cpu();
  const auto kept = [] { return std::make_shared<models::KeptActivations>(); };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    models::KeyValues* const past = cache == nullptr ? nullptr : &cache->layers[i];
    x = blocks[i]->forward(std::move(x), angles.cosine, angles.sine, past,
                           keeps ? kept() : nullptr);
  }
  return x;
}

torch::Tensor GptImpl::tied_table() const {
  return options.tied_head ? embedding->tokens : torch::Tensor();
}

}  // namespace zeroshard
