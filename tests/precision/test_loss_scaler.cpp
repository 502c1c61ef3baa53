// The loss scaler against the written table: golden traces of DeepSpeed's, and random runs against
// a literal copy of the rule.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/precision/loss_scaler.h"

namespace zeroshard {
namespace {

PrecisionOptions dynamic(std::int64_t power, std::int64_t hysteresis, std::int64_t window = 2) {
  PrecisionOptions options;
  options.fp16 = {.enabled = true,
                  .initial_scale_power = power,
                  .loss_scale_window = window,
                  .hysteresis = hysteresis};
  return options;
}

struct Step {
  double scale;
  std::int64_t hysteresis;
  bool operator==(const Step&) const = default;
};

// Runs "..X." ('X': overflow) and returns what the state was after each step.
std::vector<Step> run(LossScaler& scaler, const std::string& steps) {
  std::vector<Step> trace;
  for (const char step : steps) {
    scaler.update(step == 'X');
    trace.push_back({scaler.scale(), scaler.state().hysteresis_left});
  }
  return trace;
}

std::vector<double> scales(const std::vector<Step>& trace) {
  std::vector<double> values;
  for (const Step& step : trace) values.push_back(step.scale);
  return values;
}

TEST(LossScaler, DoublesAfterTheWindow) {
  LossScaler scaler(dynamic(8, 2));
  EXPECT_EQ(scaler.scale(), 256.0);
  EXPECT_EQ(scales(run(scaler, "........")),
            (std::vector<double>{256, 256, 512, 512, 1024, 1024, 2048, 2048}));
}

TEST(LossScaler, ToleratesAsManyOverflowsAsTheHysteresis) {
  LossScaler scaler(dynamic(8, 2));
  EXPECT_EQ(run(scaler, "XX...X..X"), (std::vector<Step>{{256, 1},
                                                         {128, 1},
                                                         {128, 1},
                                                         {128, 1},
                                                         {256, 2},
                                                         {256, 1},
                                                         {256, 1},
                                                         {256, 1},
                                                         {128, 1}}));
}

TEST(LossScaler, ConsecutiveHysteresisIsRefilledByEachGoodStep) {
  auto options = dynamic(8, 2);
  options.fp16.consecutive_hysteresis = true;
  LossScaler scaler(options);
  EXPECT_EQ(
      run(scaler, "X.X.X.X"),
      (std::vector<Step>{{256, 1}, {256, 2}, {256, 1}, {256, 2}, {256, 1}, {256, 2}, {256, 1}}));
}

TEST(LossScaler, OtherwiseItIsNot) {
  LossScaler scaler(dynamic(8, 2));
  EXPECT_EQ(run(scaler, "X.X.X.X"),
            (std::vector<Step>{{256, 1}, {256, 1}, {128, 1}, {128, 1}, {64, 1}, {64, 1}, {32, 1}}));
}

TEST(LossScaler, OverflowAtTheMinimumEndsTheRun) {
  LossScaler at_once(dynamic(2, 1)), later(dynamic(2, 2));
  EXPECT_EQ(scales(run(at_once, "XX")), (std::vector<double>{2, 1}));
  EXPECT_EQ(scales(run(later, "XXX")), (std::vector<double>{4, 2, 1}));
  EXPECT_THROW(at_once.update(true), StateError);
  EXPECT_THROW(later.update(true), StateError);
  try {
    at_once.update(true);
    FAIL();
  } catch (const StateError& error) {
    EXPECT_NE(error.fault().remedy.find("bf16"), std::string::npos);
  }
}

TEST(LossScaler, TheMinimumIsAFloorEvenBetweenPowersOfTwo) {
  auto options = dynamic(3, 1);
  options.fp16.min_loss_scale = 3;
  LossScaler scaler(options);
  EXPECT_EQ(scales(run(scaler, "XX")), (std::vector<double>{4, 3}));
  EXPECT_THROW(scaler.update(true), StateError);
}

TEST(LossScaler, AFixedScaleNeverChanges) {
  PrecisionOptions options;
  options.fp16 = {.enabled = true, .loss_scale = 128.0};
  LossScaler scaler(options);
  EXPECT_FALSE(scaler.is_dynamic());
  for (const Step& step : run(scaler, "XXXX....XX.....")) EXPECT_EQ(step.scale, 128.0);
}

TEST(LossScaler, OtherDtypesScaleByOne) {
  PrecisionOptions bf16;
  bf16.bf16.enabled = true;
  for (const PrecisionOptions& options : {PrecisionOptions{}, bf16}) {
    LossScaler scaler(options);
    for (const Step& step : run(scaler, "X..X")) EXPECT_EQ(step.scale, 1.0);
  }
}

// The table's rule, word by word.
struct Literal {
  Fp16Options options;
  double scale;
  std::int64_t iter = 0, last_overflow = -1, hyst;

  explicit Literal(const Fp16Options& fp16)
      : options(fp16),
        scale(std::pow(2.0, static_cast<double>(fp16.initial_scale_power))),
        hyst(fp16.hysteresis) {}

  bool update(bool overflow) {  // false: already at minimum
    if (overflow) {
      if (options.hysteresis == 1 || hyst == 1) {
        if (scale == static_cast<double>(options.min_loss_scale)) return false;
        scale = std::max(scale / 2.0, static_cast<double>(options.min_loss_scale));
      } else {
        hyst -= 1;
      }
      last_overflow = iter;
    } else {
      if (options.consecutive_hysteresis) hyst = options.hysteresis;
      const std::int64_t k = iter - last_overflow - 1;
      if (k > 0 && k % options.loss_scale_window == 0) {
        if (!options.consecutive_hysteresis) hyst = options.hysteresis;
        scale *= 2.0;
      }
    }
    iter += 1;
    return true;
  }
};

PrecisionOptions random_options(std::mt19937& random) {
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  auto options = dynamic(between(2, 24), between(1, 4), between(1, 6));
  options.fp16.consecutive_hysteresis = between(0, 1) == 1;
  options.fp16.min_loss_scale = between(1, 4);
  return options;
}

TEST(LossScaler, RandomRunsFollowTheLiteralRule) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const auto options = random_options(random);
    const int percent = std::uniform_int_distribution<int>(0, 60)(random);
    LossScaler scaler(options);
    Literal literal(options.fp16);
    for (int step = 0; step < 200; ++step) {
      const bool overflow = std::uniform_int_distribution<int>(1, 100)(random) <= percent;
      if (!literal.update(overflow)) {
        EXPECT_THROW(scaler.update(overflow), StateError);
        break;
      }
      scaler.update(overflow);
      const LossScalerState expected{.dynamic = true,
                                     .scale = literal.scale,
                                     .iteration = literal.iter,
                                     .last_overflow = literal.last_overflow,
                                     .hysteresis_left = literal.hyst};
      ASSERT_EQ(scaler.state(), expected) << "run " << i << ", step " << step;
    }
  }
}

TEST(LossScaler, ARestoredOneGoesOnAsIfNothingHadHappened) {
  std::mt19937 random(8);
  for (int i = 0; i < 200; ++i) {
    auto options = random_options(random);
    options.fp16.initial_scale_power += 4;  // far enough from the minimum
    LossScaler first(options);
    run(first, std::string(static_cast<std::size_t>(i % 17), '.') + "X");
    LossScaler second(options);
    second.restore(first.state());
    EXPECT_EQ(run(first, "....."), run(second, "....."));
    EXPECT_EQ(first.state(), second.state());
  }
}

TEST(LossScaler, RestoreFollowsTheOptionsWhenTheyChanged) {
  PrecisionOptions fixed;
  fixed.fp16 = {.enabled = true, .loss_scale = 128.0};
  LossScaler was_fixed(fixed), was_dynamic(dynamic(20, 3));
  LossScaler now_dynamic(dynamic(8, 2)), now_fixed(fixed), stricter(dynamic(8, 1));
  now_dynamic.restore(was_fixed.state());
  EXPECT_EQ(now_dynamic.scale(), 256.0);
  now_fixed.restore(was_dynamic.state());
  EXPECT_EQ(now_fixed.scale(), 128.0);
  stricter.restore(was_dynamic.state());
  EXPECT_EQ(stricter.scale(), 0x1p20);
  EXPECT_EQ(stricter.state().hysteresis_left, 1);
}

TEST(LossScaler, AnImpossibleStateIsRefused) {
  LossScaler scaler(dynamic(8, 2));
  for (const LossScalerState& bad :
       {LossScalerState{.dynamic = true, .scale = 0.0}, LossScalerState{.scale = std::nan("")},
        LossScalerState{.iteration = -1}, LossScalerState{.iteration = 3, .last_overflow = 3},
        LossScalerState{.hysteresis_left = 0}}) {
    EXPECT_THROW(scaler.restore(bad), StateError);
  }
  EXPECT_EQ(scaler.scale(), 256.0);
}

}  // namespace
}  // namespace zeroshard
