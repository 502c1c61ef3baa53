// A block that is computed again with what was kept of it gives the gradients of a plain one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/models/model_run.h"
#include "zeroshard/models/residual.h"

namespace zeroshard::models {
namespace {

struct Gradients {
  torch::Tensor output;
  std::vector<torch::Tensor> of;  // the input, then the parameters
};

class Residual : public testing::TestWithParam<GptOptions> {
 protected:
  Residual() : block_(GetParam()), angles_(GetParam()) {
    const at::NoGradGuard no_grad;
    for (const auto& each : block_.named_parameters()) {
      const double mean = each.key().ends_with("norm.weight") ? 1 : 0;
      each.value().copy_(mean + 0.1 * at::randn(each.value().sizes()));
    }
  }

  torch::Tensor forward(const torch::Tensor& x, const Kept& kept) {
    const Angles angles = angles_.of(0, x.size(1), x.options());
    return block_.forward(x, angles.cosine, angles.sine, nullptr, kept);
  }

  Gradients gradients_of(const torch::Tensor& x, const torch::Tensor& output,
                         const torch::Tensor& weights) {
    std::vector<torch::Tensor> by{x};
    for (const torch::Tensor& parameter : block_.parameters()) by.push_back(parameter);
    return {output.detach(), torch::autograd::grad({output}, by, {weights})};
  }

  BlockImpl block_;
  AngleTable angles_;
};

TEST_P(Residual, WhatIsKeptChangesNoGradient) {
  const torch::Tensor x = at::randn({2, 5, GetParam().hidden}).requires_grad_();
  const torch::Tensor weights = at::randn(x.sizes());
  const Gradients plain = gradients_of(x, forward(x, nullptr), weights);

  const Kept kept = std::make_shared<KeptActivations>();
  {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(forward(x, kept), plain.output));
  }
  ASSERT_TRUE(kept->after_attention.defined());
  const torch::Tensor again = forward(x, kept);
  EXPECT_FALSE(at::equal(again, plain.output));  // its last product was not computed
  const Gradients found = gradients_of(x, again, weights);
  ASSERT_EQ(found.of.size(), plain.of.size());
  for (std::size_t i = 0; i < plain.of.size(); ++i) {
    EXPECT_TRUE(at::allclose(found.of[i], plain.of[i], 1e-5, 1e-6)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Residual,
                         testing::Values(test::gpt2_options(), test::llama_options()));

}  // namespace
}  // namespace zeroshard::models
