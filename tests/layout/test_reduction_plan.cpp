// Which units are reduced together and what they are packed into.

#include <gtest/gtest.h>

#include "tests/layout/limits.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/reduction_plan.h"

namespace zeroshard {
namespace {

TEST(ReductionPlan, GoesFromTheLastUnitToTheFirstAndTheRootByItself) {
  const ReductionPlan plan =
      plan_reductions({64, 128, 256, 192},
                      {.bucket_numel = 448, .dtype = DType::bf16, .overlap = true, .root_unit = 0});
  EXPECT_EQ(plan.buckets, (std::vector<UnitBucket>{{{3, 2}, 448}, {{1}, 128}, {{0}, 64}}));
  EXPECT_EQ(plan.ring, (Ring{1024, 2, 2048}));  // 896 bytes, rounded up
  EXPECT_EQ(plan.root_slot_bytes, 256);
  EXPECT_EQ(plan.total_bytes, 2048 + 256);
}

TEST(ReductionPlan, HasNoMoreBuffersThanBuckets) {
  const auto slots = [](std::vector<std::int64_t> numels, std::int64_t bucket, bool overlap) {
    return plan_reductions(numels, {.bucket_numel = bucket, .overlap = overlap}).ring.slots;
  };
  EXPECT_EQ(slots({64, 64, 64}, 1000, true), 1);
  EXPECT_EQ(slots({64, 64, 64}, 0, true), 2);
  EXPECT_EQ(slots({64, 64, 64}, 0, false), 1);
  EXPECT_EQ(slots({0, 0}, 0, true), 0);
  EXPECT_EQ(slots({0, 64}, 0, true), 1);
  EXPECT_EQ(slots({}, 10, true), 0);
}

TEST(ReductionPlan, AFrozenRootNeedsNoBuffer) {
  const ReductionPlan plan = plan_reductions({0, 64}, {.root_unit = 0});
  EXPECT_EQ(plan.root_slot_bytes, 0);
  EXPECT_EQ(plan.total_bytes, 256);
}

TEST(ReductionPlan, RefusesBadArguments) {
  EXPECT_THROW(plan_reductions({-1}, {}), InvariantError);
  EXPECT_THROW(plan_reductions({1}, {.bucket_numel = -1}), InvariantError);
  EXPECT_THROW(plan_reductions({kMax}, {.dtype = DType::bf16}), InvariantError);
  EXPECT_THROW(plan_reductions({kMax / 4 - 1024, kMax / 4 - 1024}, {.overlap = true}),
               InvariantError);
}

}  // namespace
}  // namespace zeroshard
