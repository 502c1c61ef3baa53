// Traffic per step against the design's formulas, and bytes against counting them one by one.
#include <limits>

#include <gtest/gtest.h>

#include "tests/layout/random_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/traffic.h"

namespace zeroshard {
namespace {

constexpr GroupUse kFrozen = {.trainable = false, .released = true};
constexpr GroupUse kNeverReleased = {.trainable = true, .released = false};

TEST(Traffic, FollowsTheDesignsFormulas) {
  for (int a = 1; a <= 8; ++a) {
    SCOPED_TRACE(a);
    EXPECT_EQ(traffic_per_step(stage_row(0), a), (Traffic{1, 1, 0}));
    EXPECT_EQ(traffic_per_step(stage_row(1), a), (Traffic{1, 0, 1}));
    EXPECT_EQ(traffic_per_step(stage_row(2), a), (Traffic{a, 0, 1}));
    EXPECT_EQ(traffic_per_step(stage_row(3), a), (Traffic{a, 0, 2 * a}));
  }
}

TEST(Traffic, WithoutAccumulationStages0To2SendTheSame) {
  for (int number = 0; number < 3; ++number) {
    const Traffic traffic = traffic_per_step(stage_row(number), 1);
    EXPECT_EQ(traffic.reduces + traffic.gathers(), 2) << number;
  }
  const Traffic traffic = traffic_per_step(stage_row(3), 1);
  EXPECT_EQ(traffic.reduces + traffic.gathers(), 3);
}

TEST(Traffic, AUnitNeverReleasedIsGatheredAtMostOnce) {
  for (int a = 1; a <= 8; ++a) {
    for (int number = 0; number < 4; ++number) {
      SCOPED_TRACE(number);
      const Traffic released = traffic_per_step(stage_row(number), a);
      const Traffic kept = traffic_per_step(stage_row(number), a, kNeverReleased);
      EXPECT_EQ(kept.reduces, released.reduces);
      EXPECT_EQ(kept.parameter_gathers, number == 0 ? 0 : 1);
    }
  }
}

TEST(Traffic, FrozenParametersMoveOnlyToBeRead) {
  for (int a = 1; a <= 8; ++a) {
    for (int number = 0; number < 3; ++number) {
      EXPECT_EQ(traffic_per_step(stage_row(number), a, kFrozen), Traffic{}) << number;
    }
    EXPECT_EQ(traffic_per_step(stage_row(3), a, kFrozen), (Traffic{0, 0, 2 * a}));
    EXPECT_EQ(traffic_per_step(stage_row(3), a, {.trainable = false, .released = false}),
              Traffic{});
  }
}

TEST(Traffic, AStepHasMicroSteps) {
  EXPECT_THROW(traffic_per_step(stage_row(1), 0), InvariantError);
  EXPECT_THROW(traffic_per_step(stage_row(1), -3), InvariantError);
}

// A rank sends every element of the padded group that it does not own.
TEST(TrafficBytes, CountsEveryElementOfTheOthers) {
  testing::for_each_case(60, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const FlatLayout layout(testing::random_numels(random, 5000), random.world_size());
    const int rank = static_cast<int>(random.between(0, layout.world_size() - 1));
    std::int64_t elements = 0;
    for (std::int64_t offset = 0; offset < layout.padded_numel(); ++offset) {
      if (!layout.shard(rank).contains(offset)) ++elements;
    }
    ASSERT_EQ(bytes_sent_once(layout, DType::bf16), 2 * elements);
    ASSERT_EQ(bytes_sent_once(layout, DType::fp32), 4 * elements);
  });
}

TEST(TrafficBytes, EachKindHasItsDType) {
  const FlatLayout layout({1000}, 4);  // padded to 1024: a rank sends 768 elements
  const TrafficDTypes dtypes = {
      .parameters = DType::bf16, .reduced = DType::fp16, .gathered_gradients = DType::fp32};
  EXPECT_EQ(bytes_sent(layout, {3, 0, 5}, dtypes), (TrafficBytes{3 * 1536, 5 * 1536}));
  EXPECT_EQ(bytes_sent(layout, {1, 1, 0}, dtypes), (TrafficBytes{1536, 3072}));
}

TEST(TrafficBytes, WithOneRankNothingMoves) {
  const FlatLayout layout({1000, 17}, 1);
  for (int number = 0; number < 4; ++number) {
    const Traffic traffic = traffic_per_step(stage_row(number), 4);
    EXPECT_EQ(bytes_sent(layout, traffic, {}), TrafficBytes{}) << number;
  }
}

TEST(TrafficBytes, OverflowIsAnError) {
  const FlatLayout layout({std::numeric_limits<std::int64_t>::max() / 2}, 2);
  EXPECT_THROW(bytes_sent_once(layout, DType::fp32), InvariantError);
  const FlatLayout smaller({std::numeric_limits<std::int64_t>::max() / 8}, 2);
  EXPECT_NO_THROW(bytes_sent_once(smaller, DType::fp32));
  EXPECT_THROW(bytes_sent(smaller, {1, 0, 16}, {}), InvariantError);
}

}  // namespace
}  // namespace zeroshard
