// A model whose gradients are known without computing any: the loss is a sum of products of
// parameters and numbers that the test chooses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "zeroshard/engine/engine.h"
#include "zeroshard/engine/unit.h"

namespace zeroshard::test {

// Each parameter's share of the loss is the sum of parameter * its numbers; a parameter without
// numbers takes no part.
struct LinearPartImpl : torch::nn::Module {
  explicit LinearPartImpl(const std::vector<std::int64_t>& numels);
  torch::Tensor forward(torch::Tensor start, std::vector<torch::Tensor> numbers);

  std::vector<torch::Tensor> weights;
};

// Parameters 0 and 1 are the first unit's, 2 and 3 the second's, 4 the root's; all zero.
struct LinearModelImpl : torch::nn::Module {
  LinearModelImpl();
  torch::Tensor loss(const std::vector<torch::Tensor>& numbers);

  Unit<LinearPartImpl> first{nullptr}, second{nullptr};
  torch::Tensor root;
};
TORCH_MODULE(LinearModel);

inline constexpr std::size_t kLinearParameters = 5;
std::int64_t linear_numel(std::size_t parameter);

// Numbers in +-[0.01, 1] that depend on the arguments alone.
std::vector<torch::Tensor> linear_numbers(int rank, int micro_step);

// What this rank owns of the masters, by parameter as above; where it owns nothing, NaN.
std::vector<std::vector<float>> owned_masters(const Core& core);

}  // namespace zeroshard::test
