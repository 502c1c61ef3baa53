// What sums on devices need beside their input and output, counted by hand.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/layout/sum_scratch.h"

namespace zeroshard {
namespace {

constexpr SummedPart kBf16{.numel = 100, .in = DType::bf16, .out = DType::bf16};
constexpr SummedPart kWidened{.numel = 100, .in = DType::bf16, .out = DType::fp32};

TEST(SumScratch, HostsNeedNone) {
  EXPECT_EQ(sum_scratch_bytes({kBf16, kWidened}, {.ranks = 8, .accumulates = true}), 0);
}

// A sum that needs nothing done to it is written where it belongs.
TEST(SumScratch, TheLibraryNeedsAPlaceForSumsThatAreNotReady) {
  const auto bytes = [](const SummedPart& part, float scale, bool accumulates) {
    return sum_scratch_bytes(
        {part},
        {.sums = DeviceSums::library, .ranks = 8, .scale = scale, .accumulates = accumulates});
  };
  EXPECT_EQ(bytes(kBf16, 1.0F, false), 0);
  EXPECT_EQ(bytes(kBf16, 0.125F, false), 0) << "a power of two multiplies the addends";
  EXPECT_EQ(bytes(kBf16, 1.0F / 3.0F, false), 256);
  EXPECT_EQ(bytes(kBf16, 1.0F, true), 256);
  EXPECT_EQ(bytes(kWidened, 1.0F, false), 256) << "200 bytes, as a buffer";
  EXPECT_EQ(bytes({.numel = 0}, 1.0F / 3.0F, true), 0);
}

// The sum in fp32, and of every other rank its addends.
TEST(SumScratch, RankOrderNeedsAllAddends) {
  for (const bool accumulates : {false, true}) {
    const SumOptions options{
        .sums = DeviceSums::rank_order, .ranks = 4, .accumulates = accumulates};
    EXPECT_EQ(sum_scratch_bytes({kBf16}, options), 512 + 3 * 256);
    EXPECT_EQ(sum_scratch_bytes({kBf16, kWidened}, options), 2 * (512 + 3 * 256));
  }
}

TEST(SumScratch, AFactorIsAPowerOfTwoAndTheRest) {
  for (const float factor : {1.0F, 0.5F, 1.0F / 3.0F, 1.0F / 7.0F, 5.0F, 1e-20F}) {
    const SplitFactor split = split_factor(factor);
    EXPECT_EQ(split.power * split.rest, factor);
    EXPECT_GE(split.rest, 1.0F);
    EXPECT_LT(split.rest, 2.0F);
    int exponent = 0;
    EXPECT_EQ(std::frexp(split.power, &exponent), 0.5F);
  }
}

// Two units on two ranks: 64 and 128 elements of a rank's.
class OfAStep : public ::testing::Test {
 protected:
  static UnitLayout unit(const char* name, std::int64_t numel, bool trainable = true) {
    return UnitLayout(name, {{"weight", {numel}, DType::bf16, trainable}}, 2);
  }

  std::int64_t bytes(std::int64_t bucket_numel, std::size_t first_host_unit = 2) const {
    TierPlan tiers;
    tiers.first_host_unit = first_host_unit;
    const ReductionPlan plan =
        plan_reductions({128, 256}, {.bucket_numel = bucket_numel, .dtype = DType::bf16});
    return sum_scratch_bytes({&small_, &large_}, plan, tiers, {DType::bf16, DType::fp32},
                             {.sums = DeviceSums::library, .ranks = 2});
  }

  const UnitLayout small_ = unit("small", 100), large_ = unit("large", 200);
};

TEST_F(OfAStep, TheLargestBucketCounts) {
  EXPECT_EQ(bytes(0), 256) << "128 elements by themselves";
  EXPECT_EQ(bytes(1000), 256 + 256) << "both units in one";
}

// A call goes one way as a whole.
TEST_F(OfAStep, ABucketWithAUnitOnTheHostGoesThere) {
  EXPECT_EQ(bytes(0, 1), 256) << "the small unit's, rounded up";
  EXPECT_EQ(bytes(1000, 1), 0);
  EXPECT_EQ(bytes(0, 0), 0);
}

}  // namespace
}  // namespace zeroshard
