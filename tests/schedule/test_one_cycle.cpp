#include <algorithm>

#include <gtest/gtest.h>

#include "tests/schedule/value_lists.h"
#include "zeroshard/base/error.h"
#include "zeroshard/schedule/one_cycle.h"

namespace zeroshard::test {
namespace {

OneCycleOptions cycle(double min_lr, double max_lr, std::int64_t first) {
  OneCycleOptions options;
  options.min_lr = min_lr;
  options.max_lr = max_lr;
  options.first_step_size = first;
  return options;
}

TEST(OneCycle, GoesUpAndDownOnce) {
  const auto options = cycle(0, 1, 4);
  expect_near(lr_list(options, 13), {0, .25, .5, .75, 1, .75, .5, .25, 0, 0, 0, 0, 0});
  expect_near(beta1_list(options, 13),
              {.8, .875, .85, .825, .8, .825, .85, .875, .9, .9, .9, .9, .9});
}

TEST(OneCycle, DecaysAfterTheCycle) {
  auto options = cycle(.1, 1, 3);
  options.decay_step_size = 2;
  options.decay_lr_rate = .5;
  options.decay_momentum_rate = .1;
  expect_near(lr_list(options, 15), {.1, .4, .7, 1, .7, .4, .1, .08, .066667, .057143, .05, .044444,
                                     .04, .036364, .033333});
  expect_near(beta1_list(options, 15), {.8, .866667, .833333, .8, .833333, .866667, .9, .945, .99,
                                        1.035, 1.08, 1.125, 1.17, 1.215, 1.26});
}

TEST(OneCycle, StairsHoldTheValueAndKeepTheTop) {
  auto options = cycle(0, 1, 6);
  options.first_stair_count = 2;
  expect_near(lr_list(options, 13), {0, 0, 0, .5, .5, .5, 1, .5, .5, .5, 0, 0, 0});
  options.second_stair_count = 0;  // the second half continuous again
  expect_near(lr_list(options, 13),
              {0, 0, 0, .5, .5, .5, 1, 5 / 6., 4 / 6., 3 / 6., 2 / 6., 1 / 6., 0});
}

TEST(OneCycle, StairsTakeAsManyValuesAsAsked) {
  for (const std::int64_t stairs : {1, 2, 3, 5, 7}) {
    auto options = cycle(0, 1, 49);
    options.first_stair_count = stairs;
    auto values = lr_list(options, 50);
    EXPECT_DOUBLE_EQ(values.back(), 1.0);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    EXPECT_EQ(values.size(), static_cast<std::size_t>(stairs) + 1);
  }
}

TEST(OneCycle, HalvesMayDiffer) {
  auto options = cycle(0, 1, 2);
  options.second_step_size = 4;
  expect_near(lr_list(options, 8), {0, .5, 1, .75, .5, .25, 0, 0});
}

TEST(OneCycle, EmptySecondHalfDropsBeforeTheTop) {
  auto options = cycle(0, 1, 4);
  options.second_step_size = 0;
  expect_near(lr_list(options, 6), {0, .25, .5, .75, 0, 0});
}

TEST(OneCycle, Beta2IsAlwaysTheSame) {
  for (const std::int64_t iteration : {-1, 0, 3, 7, 100}) {
    EXPECT_EQ(betas_at(cycle(0, 1, 4), iteration)->beta2, 0.99);
  }
}

TEST(OneCycle, MomentumCanBeOff) {
  auto options = cycle(0, 1, 4);
  options.cycle_momentum = false;
  EXPECT_EQ(betas_at(options, 3), std::nullopt);
  EXPECT_DOUBLE_EQ(lr_at(options, 3), 1.0);
}

TEST(OneCycle, StaysBetweenItsBoundsAndMovesInSmallSteps) {
  const auto options = cycle(.1, 1, 50);
  for (std::int64_t i = 0; i < 100; ++i) {
    EXPECT_GE(lr_at(options, i), .1);
    EXPECT_LE(lr_at(options, i), 1.0);
    EXPECT_LE(std::abs(lr_at(options, i) - lr_at(options, i - 1)), .9 / 50 + 1e-12);
    // beta1 mirrors the lr.
    const double height = (lr_at(options, i) - .1) / .9;
    EXPECT_NEAR(betas_at(options, i)->beta1, .9 - .1 * height, 1e-12);
  }
}

TEST(OneCycle, DecayedLrFallsAndStaysPositive) {
  auto options = cycle(.1, 1, 5);
  options.decay_step_size = 3;
  options.decay_lr_rate = 2;
  for (std::int64_t i = 10; i < 10000; ++i) {
    EXPECT_LT(lr_at(options, i), lr_at(options, i - 1));
    EXPECT_GT(lr_at(options, i), 0.0);
  }
}

TEST(OneCycle, RefusesNonsense) {
  EXPECT_THROW(lr_at(cycle(0, 1, 0), 0), InvariantError);
  auto options = cycle(0, 1, 4);
  options.second_step_size = -1;
  EXPECT_THROW(lr_at(options, 0), InvariantError);
  EXPECT_THROW(betas_at(options, 0), InvariantError);
  options = cycle(0, 1, 4);
  options.decay_step_size = -1;
  EXPECT_THROW(lr_at(options, 0), InvariantError);
}

}  // namespace
}  // namespace zeroshard::test
