// A decoder-only language model in units: the embedding, each block, and the head are gathered and
// released by themselves, and nothing is left for the root unit (but a tied table, which two units
// use).
//
//   Gpt model(GptOptions{.layers = 6});
//   fill_parameters(*model, gpt_initializer(options, seed));   // or engine.fill_parameters(...)
//   torch::Tensor loss = model->loss(tokens, targets);
#pragma once

#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

#include "zeroshard/engine/unit.h"
#include "zeroshard/models/block.h"
#include "zeroshard/models/key_values.h"
#include "zeroshard/models/options.h"
#include "zeroshard/models/rotary.h"

namespace zeroshard {

// A target that does not count, as in PyTorch.
inline constexpr std::int64_t kIgnoredTarget = -100;

namespace models {

struct EmbeddingImpl : torch::nn::Module {
  explicit EmbeddingImpl(const GptOptions& options);
  // [batch, length] of int64, at positions from `first` on -> [batch, length, hidden]. Virtual: the
  // model holds a Unit of it or, where the head shares its table, the module itself.
  virtual torch::Tensor forward(torch::Tensor token_ids, std::int64_t first);

  torch::Tensor tokens, positions;
};

// The last norm and the matrix to the vocabulary. With targets it returns the loss, so that the
// logits stay inside the unit.
struct HeadImpl : torch::nn::Module {
  explicit HeadImpl(const GptOptions& options);
  // `tied`: the embedding's table, else undefined. `targets`: undefined for logits.
  torch::Tensor forward(torch::Tensor x, torch::Tensor tied, torch::Tensor targets);

  Norm norm{nullptr};
  Linear out{nullptr};
};

}  // namespace models

struct GptImpl : torch::nn::Module {
  explicit GptImpl(const GptOptions& options);

  // [batch, length] of int64 -> [batch, length, vocabulary].
  torch::Tensor forward(const torch::Tensor& tokens);
  // Mean cross entropy over all positions whose target is not kIgnoredTarget, in fp32.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets);
  // Logits of what follows the last token, [batch, vocabulary].
  torch::Tensor next_logits(const torch::Tensor& tokens);
  // The same for tokens that follow those in the cache, and then are in it: any number of them
  // where it is empty, else one.
  torch::Tensor next_logits(const torch::Tensor& tokens, KeyValueCache& cache);

  const GptOptions options;
  std::shared_ptr<models::EmbeddingImpl> embedding;
  std::vector<Unit<models::BlockImpl>> blocks;
  Unit<models::HeadImpl> head{nullptr};

 private:
  torch::Tensor run_blocks(const torch::Tensor& tokens, KeyValueCache* cache = nullptr);
  torch::Tensor logits_of_last(const torch::Tensor& hidden);
  torch::Tensor tied_table() const;

  models::AngleTable angles_;
};
TORCH_MODULE(Gpt);

}  // namespace zeroshard
