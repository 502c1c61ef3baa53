// A small transformer-like model of units, for tests of the engine.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "zeroshard/engine/unit.h"

namespace zeroshard::test {

struct ModelShape {
  std::int64_t vocabulary = 37;
  std::int64_t width = 24;
  int blocks = 3;
  bool checkpoint = false;
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width);
  torch::Tensor forward(torch::Tensor x);

  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
};

struct TokensImpl : torch::nn::Module {
  TokensImpl(std::int64_t vocabulary, std::int64_t width);
  torch::Tensor forward(torch::Tensor tokens);

  torch::nn::Embedding table{nullptr};
};

struct HeadImpl : torch::nn::Module {
  HeadImpl(std::int64_t width, std::int64_t vocabulary);
  torch::Tensor forward(torch::Tensor x);

  torch::nn::Linear out{nullptr};
};

// Embedding, blocks and head are units; the last norm is of the root.
struct ModelImpl : torch::nn::Module {
  explicit ModelImpl(const ModelShape& shape);
  torch::Tensor forward(torch::Tensor tokens);
  torch::Tensor loss(const torch::Tensor& tokens);  // of predicting each next token

  Unit<TokensImpl> tokens{nullptr};
  std::vector<Unit<BlockImpl>> blocks;
  torch::nn::LayerNorm norm{nullptr};
  Unit<HeadImpl> head{nullptr};
};
TORCH_MODULE(Model);

// Parameters that depend on their names and elements alone.
void set_parameters(torch::nn::Module& model, std::uint64_t seed);
// A batch that depends on its arguments alone.
torch::Tensor batch_of(std::int64_t rows, std::int64_t length, std::int64_t vocabulary,
                       std::uint64_t seed);

}  // namespace zeroshard::test
