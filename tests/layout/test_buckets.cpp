// Property: buckets cover the units in order, within the bucket size, and could not be fewer.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/layout/limits.h"
#include "tests/layout/random_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/bucket_plan.h"

namespace zeroshard {
namespace {

using Numels = std::vector<std::int64_t>;

TEST(Buckets, CoverUnitsInOrderWithinTheSize) {
  testing::for_each_case(600, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const Numels numels = testing::random_numels(random, 100'000);
    const std::int64_t bucket_numel = random.between(1, 1500);
    const BucketPlan plan(numels, bucket_numel);
    std::size_t unit = 0;
    std::int64_t largest = 0;
    for (std::size_t b = 0; b < plan.buckets().size(); ++b) {
      const Bucket& bucket = plan.buckets()[b];
      ASSERT_EQ(bucket.first_unit, unit);
      std::int64_t sum = 0;
      int with_elements = 0;
      for (; unit < bucket.end_unit; ++unit) {
        ASSERT_EQ(plan.bucket_of(unit), b);
        sum += numels.at(unit);
        if (numels[unit] > 0) ++with_elements;
      }
      ASSERT_GT(bucket.end_unit, bucket.first_unit);
      ASSERT_EQ(bucket.numel, sum);
      ASSERT_TRUE(sum <= bucket_numel || with_elements == 1) << sum;
      largest = std::max(largest, sum);
    }
    ASSERT_EQ(unit, numels.size());
    ASSERT_EQ(plan.largest_numel(), largest);
  });
}

// Fewest buckets of neighbours, by trying every cut.
std::size_t fewest(const Numels& numels, std::int64_t bucket_numel) {
  std::vector<std::size_t> best(numels.size() + 1, numels.size() + 1);
  best[0] = 0;
  for (std::size_t end = 1; end <= numels.size(); ++end) {
    std::int64_t sum = 0;
    int with_elements = 0;
    for (std::size_t first = end; first-- > 0;) {
      sum += numels[first];
      if (numels[first] > 0) ++with_elements;
      const bool allowed = sum <= bucket_numel || with_elements <= 1;
      if (allowed) best[end] = std::min(best[end], best[first] + 1);
    }
  }
  return best[numels.size()];
}

TEST(Buckets, AreAsFewAsPossible) {
  testing::for_each_case(400, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const Numels numels = testing::random_numels(random, 5000);
    const std::int64_t bucket_numel = random.between(1, 1500);
    const BucketPlan plan(numels, bucket_numel);
    ASSERT_EQ(plan.buckets().size(), fewest(numels, bucket_numel));
  });
}

TEST(Buckets, SizeZeroLeavesEachUnitAlone) {
  const BucketPlan plan({5, 0, 7}, 0);
  EXPECT_EQ(plan.buckets(), (std::vector<Bucket>{{0, 1, 5}, {1, 2, 0}, {2, 3, 7}}));
  EXPECT_EQ(plan.largest_numel(), 7);
}

TEST(Buckets, ALargeUnitIsAloneAndEmptyOnesJoin) {
  const BucketPlan plan({0, 100, 0, 3, 4, 100, 3}, 10);
  EXPECT_EQ(plan.buckets(), (std::vector<Bucket>{{0, 3, 100}, {3, 5, 7}, {5, 6, 100}, {6, 7, 3}}));
}

TEST(Buckets, AnExactFitIsAFit) {
  EXPECT_EQ(BucketPlan({4, 6, 1}, 10).buckets(), (std::vector<Bucket>{{0, 2, 10}, {2, 3, 1}}));
}

TEST(Buckets, OfNothing) {
  EXPECT_TRUE(BucketPlan({}, 10).buckets().empty());
  EXPECT_EQ(BucketPlan({}, 10).largest_numel(), 0);
  EXPECT_EQ(BucketPlan({0, 0}, 10).buckets(), (std::vector<Bucket>{{0, 2, 0}}));
}

TEST(Buckets, NearTheLargestIntegerDoNotOverflow) {
  const BucketPlan plan({kMax, kMax, 1}, kMax);
  EXPECT_EQ(plan.buckets().size(), 3u);
  EXPECT_EQ(plan.largest_numel(), kMax);
}

TEST(Buckets, RefuseBadArguments) {
  EXPECT_THROW(BucketPlan({1}, -1), InvariantError);
  EXPECT_THROW(BucketPlan({1, -1}, 10), InvariantError);
  EXPECT_THROW(BucketPlan({1, 1}, 10).bucket_of(2), InvariantError);
}

}  // namespace
}  // namespace zeroshard
