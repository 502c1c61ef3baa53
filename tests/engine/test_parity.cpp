// Stages change where states live and nothing else: losses, norms and weights are the same bits.
#include <gtest/gtest.h>

#include "tests/engine/parity_run.h"

namespace zeroshard::test {
namespace {

RunPlan plan_of(int stage, int ranks, std::int64_t micro_steps, DType dtype) {
  RunPlan plan;
  plan.ranks = ranks;
  plan.options.zero.stage = stage;
  plan.options.zero.persistence_numel = 0;
  plan.options.zero.reduce_bucket_numel = 2000;
  plan.options.zero.prefetch_numel = 3000;
  plan.options.accumulation_steps = micro_steps;
  plan.options.precision.bf16.enabled = dtype == DType::bf16;
  plan.options.precision.fp16.enabled = dtype == DType::fp16;
  plan.options.groups = {AdamOptions{.lr = 1e-2, .weight_decay = 0.1}};
  plan.options.threads = 1;
  return plan;
}

class Parity : public testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(Parity, StagesAreEqualWithoutAccumulation) {
  const auto [ranks, dtype] = GetParam();
  const Trace expected = train(plan_of(0, ranks, 1, dtype));
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (const int stage : {1, 2, 3}) {
    EXPECT_EQ(difference(expected, train(plan_of(stage, ranks, 1, dtype))), "") << stage;
  }
}

TEST_P(Parity, StagesAreEqualInPairsWithAccumulation) {
  const auto [ranks, dtype] = GetParam();
  EXPECT_EQ(difference(train(plan_of(0, ranks, 2, dtype)), train(plan_of(1, ranks, 2, dtype))), "");
  EXPECT_EQ(difference(train(plan_of(2, ranks, 2, dtype)), train(plan_of(3, ranks, 2, dtype))), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Parity,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values(DType::fp32, DType::bf16, DType::fp16)));

}  // namespace
}  // namespace zeroshard::test
