#include <gtest/gtest.h>

#include "tests/schedule/value_lists.h"
#include "zeroshard/base/error.h"
#include "zeroshard/schedule/ramps.h"

namespace zeroshard::test {
namespace {

TEST(RangeTest, GrowsALineAsDeepSpeedDoes) {
  const LrRangeTestOptions options{.min_lr = 0.1, .step_size = 2, .step_rate = 1.0};
  expect_near(lr_list(options, 7), {.1, .15, .2, .25, .3, .35, .4});
}

TEST(RangeTest, StaircaseHoldsEachStep) {
  const LrRangeTestOptions options{
      .min_lr = 0.1, .step_size = 2, .step_rate = 1.0, .staircase = true};
  expect_near(lr_list(options, 7), {.1, .1, .2, .2, .3, .3, .4});
}

TEST(RangeTest, StaircaseMeetsTheLineAtEveryStep) {
  LrRangeTestOptions line{.min_lr = 0.01, .step_size = 7, .step_rate = 2.5};
  LrRangeTestOptions stairs = line;
  stairs.staircase = true;
  for (std::int64_t i = -1; i < 200; ++i) {
    EXPECT_LE(lr_at(stairs, i), lr_at(line, i));
    if ((i + 1) % 7 == 0) {
      EXPECT_DOUBLE_EQ(lr_at(stairs, i), lr_at(line, i));
    }
  }
}

TEST(RangeTest, DefaultsAreDeepSpeeds) {
  EXPECT_DOUBLE_EQ(lr_at(LrRangeTestOptions{}, -1), 1e-3);
  EXPECT_DOUBLE_EQ(lr_at(LrRangeTestOptions{}, 1999), 2e-3);
}

TEST(RangeTest, RefusesStepSizeZero) {
  EXPECT_THROW(lr_at(LrRangeTestOptions{.step_size = 0}, 0), InvariantError);
  EXPECT_THROW(lr_at(LrRangeTestOptions{.step_size = -3}, 0), InvariantError);
}

}  // namespace
}  // namespace zeroshard::test
