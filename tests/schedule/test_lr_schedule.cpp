#include <gtest/gtest.h>

#include "tests/schedule/value_lists.h"
#include "zeroshard/base/error.h"

namespace zeroshard::test {
namespace {

OneCycleOptions small_cycle() {
  OneCycleOptions options;
  options.min_lr = .1;
  options.max_lr = 1;
  options.first_step_size = 4;
  return options;
}

const std::vector<ScheduleOptions> kEvery{
    LrRangeTestOptions{.min_lr = .1, .step_size = 2},
    small_cycle(),
    WarmupLrOptions{.max_lr = 1.0, .num_steps = 5},
    WarmupDecayLrOptions{.total_num_steps = 10, .max_lr = 1.0, .num_steps = 4},
    WarmupCosineLrOptions{.total_num_steps = 10, .num_steps = 4},
};

TEST(LrSchedule, UpdateKUsesIterationKMinusTwo) {
  for (const auto& options : kEvery) {
    for (std::int64_t update = 1; update < 20; ++update) {
      EXPECT_EQ(lr_for_update(options, update, .5), schedule_at(options, update - 2, .5).lr);
    }
  }
}

TEST(LrSchedule, FirstTwoUpdatesOfAWarmupFromZeroChangeNothing) {
  const WarmupLrOptions options{.max_lr = 1.0, .num_steps = 5};
  EXPECT_EQ(lr_for_update(options, 1, 1.0), 0.0);
  EXPECT_EQ(lr_for_update(options, 2, 1.0), 0.0);
  EXPECT_GT(lr_for_update(options, 3, 1.0), 0.0);
}

TEST(LrSchedule, OnlyOneCycleSetsBetas) {
  for (const auto& options : kEvery) {
    const bool one_cycle = std::holds_alternative<OneCycleOptions>(options);
    EXPECT_EQ(schedule_at(options, 3, 1.0).betas.has_value(), one_cycle);
  }
}

TEST(LrSchedule, PassesTheOptimizersLrToThoseThatScaleIt) {
  EXPECT_DOUBLE_EQ(schedule_at(WarmupLrOptions{.max_lr = {}, .num_steps = 2}, 9, .3).lr, .3);
  const WarmupCosineLrOptions cosine{.total_num_steps = 10, .num_steps = 4};
  EXPECT_DOUBLE_EQ(schedule_at(cosine, 3, .3).lr, .3);
}

TEST(LrSchedule, NeverNegative) {
  for (const auto& options : kEvery) {
    for (const double lr : lr_list(options, 500)) EXPECT_GE(lr, 0.0);
  }
}

TEST(LrSchedule, RefusesIterationsBeforeTheFirst) {
  for (const auto& options : kEvery) {
    EXPECT_THROW(schedule_at(options, -2, 1.0), InvariantError);
    EXPECT_THROW(lr_for_update(options, 0, 1.0), InvariantError);
  }
}

}  // namespace
}  // namespace zeroshard::test
