// Stages change where states live and nothing else: losses, norms and weights are the same bits.
#include <gtest/gtest.h>

#include "tests/engine/parity_run.h"

namespace zeroshard::test {
namespace {

class Parity : public testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(Parity, StagesAreEqualWithoutAccumulation) {
  const auto [ranks, dtype] = GetParam();
  const Trace expected = train(small_plan(0, ranks, dtype, 1));
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (const int stage : {1, 2, 3}) {
    EXPECT_EQ(difference(expected, train(small_plan(stage, ranks, dtype, 1))), "") << stage;
  }
}

TEST_P(Parity, StagesAreEqualInPairsWithAccumulation) {
  const auto [ranks, dtype] = GetParam();
  EXPECT_EQ(
      difference(train(small_plan(0, ranks, dtype, 2)), train(small_plan(1, ranks, dtype, 2))), "");
  EXPECT_EQ(
      difference(train(small_plan(2, ranks, dtype, 2)), train(small_plan(3, ranks, dtype, 2))), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Parity,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values(DType::fp32, DType::bf16, DType::fp16)));

}  // namespace
}  // namespace zeroshard::test
