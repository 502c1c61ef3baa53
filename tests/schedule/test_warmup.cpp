#include <gtest/gtest.h>

#include "tests/schedule/value_lists.h"
#include "zeroshard/base/error.h"
#include "zeroshard/schedule/ramps.h"

namespace zeroshard::test {
namespace {

TEST(WarmupLr, LogAsDeepSpeed) {
  const WarmupLrOptions options{.max_lr = 1.0, .num_steps = 5};
  expect_near(lr_list(options, 8), {0, 0, .430677, .682606, .861353, 1, 1, 1});
}

TEST(WarmupLr, LinearAsDeepSpeed) {
  const WarmupLrOptions options{.max_lr = 1.0, .num_steps = 5, .shape = WarmupShape::linear};
  expect_near(lr_list(options, 8), {0, 0, .2, .4, .6, .8, 1, 1});
}

TEST(WarmupLr, WarmsUpToTheOptimizersLrWhereNoMaxIsGiven) {
  WarmupLrOptions options{.min_lr = 1e-5, .max_lr = {}, .num_steps = 4};
  EXPECT_DOUBLE_EQ(lr_at(options, 4, 3e-4), 3e-4);
  options.max_lr = 1e-3;
  EXPECT_DOUBLE_EQ(lr_at(options, 4, 3e-4), 1e-3);
  EXPECT_DOUBLE_EQ(lr_at(options, -1, 3e-4), 1e-5);
}

TEST(WarmupLr, OneStepCountsAsTwo) {
  for (const auto shape : {WarmupShape::log, WarmupShape::linear}) {
    const WarmupLrOptions one{.max_lr = 1.0, .num_steps = 1, .shape = shape};
    const WarmupLrOptions two{.max_lr = 1.0, .num_steps = 2, .shape = shape};
    EXPECT_EQ(lr_list(one, 6), lr_list(two, 6));
  }
  const WarmupLrOptions linear{.max_lr = 1.0, .num_steps = 1, .shape = WarmupShape::linear};
  expect_near(lr_list(linear, 5), {0, 0, .5, 1, 1});
}

TEST(WarmupLr, NeverFalls) {
  for (const auto shape : {WarmupShape::log, WarmupShape::linear}) {
    const auto values =
        lr_list(WarmupLrOptions{.min_lr = .1, .max_lr = 2.0, .num_steps = 37, .shape = shape}, 100);
    for (std::size_t i = 1; i < values.size(); ++i) EXPECT_GE(values[i], values[i - 1]);
    EXPECT_DOUBLE_EQ(values.front(), .1);
    EXPECT_DOUBLE_EQ(values.back(), 2.0);
  }
}

TEST(WarmupDecayLr, LinearAsDeepSpeed) {
  const WarmupDecayLrOptions options{
      .total_num_steps = 10, .max_lr = 1.0, .num_steps = 4, .shape = WarmupShape::linear};
  expect_near(lr_list(options, 13),
              {0, 0, .25, .5, .75, 1, .833333, .666667, .5, .333333, .166667, 0, 0});
}

TEST(WarmupDecayLr, IgnoresTheOptimizersLr) {
  const WarmupDecayLrOptions options{.total_num_steps = 10, .num_steps = 4};
  EXPECT_EQ(lr_list(options, 13, 1.0), lr_list(options, 13, 7.0));
  EXPECT_DOUBLE_EQ(lr_at(options, 4), 1e-3);
}

TEST(WarmupDecayLr, TotalBelowWarmupEndsAtMin) {
  const WarmupDecayLrOptions options{.total_num_steps = 3,
                                     .min_lr = .1,
                                     .max_lr = 1.0,
                                     .num_steps = 5,
                                     .shape = WarmupShape::linear};
  expect_near(lr_list(options, 9), {.1, .1, .28, .46, .64, .82, .1, .1, .1});
}

TEST(WarmupDecayLr, EndsAtMinAndStaysThere) {
  const WarmupDecayLrOptions options{
      .total_num_steps = 50, .min_lr = .01, .max_lr = 1.0, .num_steps = 10};
  for (std::int64_t i = 11; i < 50; ++i) EXPECT_LT(lr_at(options, i), lr_at(options, i - 1));
  for (std::int64_t i = 50; i < 60; ++i) EXPECT_DOUBLE_EQ(lr_at(options, i), .01);
}

TEST(WarmupCosineLr, LinearAsDeepSpeed) {
  const WarmupCosineLrOptions options{
      .total_num_steps = 10, .num_steps = 4, .cos_min_ratio = .1, .shape = WarmupShape::linear};
  expect_near(lr_list(options, 13),
              {0, 0, .25, .5, .75, .939711, .775, .55, .325, .160289, .1, .1, .1});
}

TEST(WarmupCosineLr, ScalesTheOptimizersLr) {
  const WarmupCosineLrOptions options{.total_num_steps = 30, .min_ratio = .2, .num_steps = 6};
  for (std::int64_t i = -1; i < 40; ++i) {
    EXPECT_NEAR(lr_at(options, i, 3e-4), 3e-4 * lr_at(options, i, 1.0), 1e-18);
  }
}

TEST(WarmupCosineLr, LogReachesOneAndLinearDoesNot) {
  WarmupCosineLrOptions options{.total_num_steps = 30, .num_steps = 6};
  EXPECT_DOUBLE_EQ(lr_at(options, 5, 1.0), 1.0);
  options.shape = WarmupShape::linear;
  for (std::int64_t i = -1; i < 40; ++i) EXPECT_LT(lr_at(options, i, 1.0), 1.0);
}

TEST(WarmupCosineLr, StartsAtZeroEvenWithMinRatio) {
  const WarmupCosineLrOptions options{.total_num_steps = 30, .min_ratio = .2, .num_steps = 6};
  EXPECT_EQ(lr_at(options, -1, 1.0), 0.0);
  EXPECT_DOUBLE_EQ(lr_at(options, 0, 1.0), .2);
}

TEST(WarmupCosineLr, FallsToTheFloorAndDoesNotSwingBack) {
  const WarmupCosineLrOptions options{.total_num_steps = 40, .num_steps = 10};
  for (std::int64_t i = 11; i < 40; ++i) {
    EXPECT_LT(lr_at(options, i, 1.0), lr_at(options, i - 1, 1.0));
  }
  for (std::int64_t i = 39; i < 120; ++i) EXPECT_NEAR(lr_at(options, i, 1.0), 1e-4, 1e-15);
}

TEST(WarmupCosineLr, TotalBelowWarmupStaysAtTheFloor) {
  const WarmupCosineLrOptions options{.total_num_steps = 3, .num_steps = 6, .cos_min_ratio = .25};
  EXPECT_DOUBLE_EQ(lr_at(options, 5, 1.0), 1.0);
  for (std::int64_t i = 6; i < 20; ++i) EXPECT_DOUBLE_EQ(lr_at(options, i, 1.0), .25);
}

TEST(Warmup, RefusesNoSteps) {
  EXPECT_THROW(lr_at(WarmupLrOptions{.max_lr = 1.0, .num_steps = 0}, 0, 1.0), InvariantError);
  EXPECT_THROW(lr_at(WarmupDecayLrOptions{.num_steps = -1}, 0), InvariantError);
  EXPECT_THROW(lr_at(WarmupCosineLrOptions{.num_steps = 0}, 0, 1.0), InvariantError);
}

}  // namespace
}  // namespace zeroshard::test
