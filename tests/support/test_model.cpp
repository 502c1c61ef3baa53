#include "tests/support/test_model.h"

#include <cmath>

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>

#include "zeroshard/base/fnv1a.h"
#include "zeroshard/base/mix64.h"

namespace zeroshard::test {
BlockImpl::BlockImpl(std::int64_t width)
    : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
      up(register_module("up", torch::nn::Linear(width, 3 * width))),
      down(register_module("down", torch::nn::Linear(3 * width, width))) {}

torch::Tensor BlockImpl::forward(torch::Tensor x) { return x + down(torch::gelu(up(norm(x)))); }

TokensImpl::TokensImpl(std::int64_t vocabulary, std::int64_t width)
    : table(register_module("table", torch::nn::Embedding(vocabulary, width))) {}

torch::Tensor TokensImpl::forward(torch::Tensor tokens) { return table(tokens); }

HeadImpl::HeadImpl(std::int64_t width, std::int64_t vocabulary)
    : out(register_module(
          "out", torch::nn::Linear(torch::nn::LinearOptions(width, vocabulary).bias(false)))) {}

torch::Tensor HeadImpl::forward(torch::Tensor x) { return out(x); }

ModelImpl::ModelImpl(const ModelShape& shape) {
  tokens = register_module("tokens", Unit<TokensImpl>(shape.vocabulary, shape.width));
  for (int i = 0; i < shape.blocks; ++i) {
    blocks.push_back(register_module("block" + std::to_string(i), Unit<BlockImpl>(shape.width)));
    if (shape.checkpoint) blocks.back()->checkpoint_activations();
  }
  norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})));
  head = register_module("head", Unit<HeadImpl>(shape.width, shape.vocabulary));
}

torch::Tensor ModelImpl::forward(torch::Tensor x) {
  torch::Tensor hidden = tokens->forward(std::move(x));
  for (auto& block : blocks) hidden = block->forward(hidden);
  return head->forward(norm(hidden));
}

torch::Tensor ModelImpl::loss(const torch::Tensor& tokens_) {
  const std::int64_t length = tokens_.size(1) - 1;
  const torch::Tensor scores = forward(tokens_.narrow(1, 0, length));
  return torch::nn::functional::cross_entropy(
      scores.reshape({-1, scores.size(-1)}).to(torch::kFloat),
      tokens_.narrow(1, 1, length).reshape(-1));
}

void set_parameters(torch::nn::Module& model, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model.named_parameters()) {
    const std::uint64_t key = mix64(Fnv1a().add(parameter.key()).value() ^ seed);
    const torch::Tensor values = torch::empty({parameter.value().numel()});
    auto* data = values.data_ptr<float>();
    const double width = 1.0 / std::sqrt(static_cast<double>(parameter.value().size(-1)));
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const double unit =
          static_cast<double>(mix64(key + static_cast<std::uint64_t>(i)) >> 11U) * 0x1p-53;
      data[i] = static_cast<float>((2 * unit - 1) * width);
    }
    parameter.value().copy_(values.view(parameter.value().sizes()));
  }
}

torch::Tensor batch_of(std::int64_t rows, std::int64_t length, std::int64_t vocabulary,
                       std::uint64_t seed) {
  const torch::Tensor tokens = torch::empty({rows, length}, torch::kLong);
  auto* data = tokens.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < tokens.numel(); ++i) {
    data[i] = static_cast<std::int64_t>(mix64(seed * 1000003 + static_cast<std::uint64_t>(i)) %
                                        static_cast<std::uint64_t>(vocabulary));
  }
  return tokens;
}

}  // namespace zeroshard::test
