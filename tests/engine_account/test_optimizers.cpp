// Every optimizer goes through the same engine: stages are equal, and training gets somewhere.
#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"

namespace zeroshard::test {
namespace {

std::vector<OptimizerOptions> optimizers() {
  return {
      SgdOptions{.lr = 0.1},
      SgdOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01},
      SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
      LionOptions{.lr = 2e-3, .betas = {0.9, 0.99}, .weight_decay = 0.1},
      AdagradOptions{.lr = 0.02, .weight_decay = 0.01},
      AdamOptions{.lr = 1e-2, .weight_decay = 0.1, .decoupled_decay = false},
      AdamOptions{.lr = 1e-3, .bias_correction = false},
  };
}

class Optimizers : public testing::TestWithParam<std::tuple<std::size_t, DType>> {};

Trace trained(int stage, std::int64_t micro_steps, const OptimizerOptions& optimizer, DType dtype) {
  RunPlan plan = small_plan(stage, 3, dtype, micro_steps);
  plan.options.precision.fp16.initial_scale_power = 10;
  plan.options.parameter_groups = {optimizer};
  plan.steps = 8;
  return train(plan);
}

TEST_P(Optimizers, AreEqualInAllStages) {
  const auto [index, dtype] = GetParam();
  const OptimizerOptions optimizer = optimizers()[index];
  const Trace expected = trained(0, 1, optimizer, dtype);
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (const int stage : {1, 2, 3}) {
    EXPECT_EQ(difference(expected, trained(stage, 1, optimizer, dtype)), "") << stage;
  }
  EXPECT_EQ(difference(trained(0, 2, optimizer, dtype), trained(1, 2, optimizer, dtype)), "");
  EXPECT_EQ(difference(trained(2, 2, optimizer, dtype), trained(3, 2, optimizer, dtype)), "");
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers,
                         testing::Combine(testing::Range<std::size_t>(0, 7),
                                          testing::Values(DType::fp32, DType::bf16, DType::fp16)));

}  // namespace
}  // namespace zeroshard::test
