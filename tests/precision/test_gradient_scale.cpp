// Unscaling, clipping, the mean over ranks, and which steps are skipped.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/precision/gradient_scale.h"
#include "zeroshard/precision/loss_scaler.h"

namespace zeroshard {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

PrecisionOptions in_dtype(DType dtype) {
  PrecisionOptions options;
  options.fp16.enabled = dtype == DType::fp16;
  options.bf16.enabled = dtype == DType::bf16;
  return options;
}

TEST(ShouldSkip, AFiniteNormNeverDoes) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const double norm : {0.0, 1.0, 1e300}) EXPECT_FALSE(should_skip(in_dtype(dtype), norm));
  }
}

TEST(ShouldSkip, ANonFiniteNormDoesUnlessBf16SaysNotToCheck) {
  for (const double norm : {kInfinity, -kInfinity, kNaN}) {
    EXPECT_TRUE(should_skip(in_dtype(DType::fp32), norm));
    EXPECT_TRUE(should_skip(in_dtype(DType::fp16), norm));
    auto options = in_dtype(DType::bf16);
    EXPECT_TRUE(should_skip(options, norm));
    options.bf16.check_grad_overflow = false;
    EXPECT_FALSE(should_skip(options, norm));
  }
}

TEST(ShouldSkip, TheBf16KeySaysNothingAboutOtherDtypes) {
  for (const DType dtype : {DType::fp32, DType::fp16}) {
    auto options = in_dtype(dtype);
    options.bf16.check_grad_overflow = false;
    EXPECT_TRUE(should_skip(options, kNaN));
  }
}

TEST(GradientFactor, UnscalesWhenTheNormIsBelowTheClip) {
  EXPECT_EQ(gradient_factor({.scaled_norm = 0.5 * 1024, .loss_scale = 1024, .clip = 1.0}),
            1.0F / 1024);
  EXPECT_EQ(gradient_factor({.scaled_norm = 0.5, .clip = 1.0}), 1.0F);
}

TEST(GradientFactor, ClipsTheNormToTheClip) {
  for (const double scale : {1.0, 65536.0}) {
    for (const double norm : {1.5, 20.0, 1e6}) {
      const ClipInputs inputs{.scaled_norm = norm * scale, .loss_scale = scale, .clip = 0.7};
      const double clipped = static_cast<double>(gradient_factor(inputs)) * norm * scale;
      EXPECT_LE(clipped, 0.7 * (1 + 1e-7));
      EXPECT_NEAR(clipped, 0.7, 1e-6);
      const double combined = scale * std::max(1.0, (norm + 1e-6) / 0.7);
      EXPECT_EQ(gradient_factor(inputs), static_cast<float>(1.0 / combined));
    }
  }
}

TEST(GradientFactor, ZeroClipMeansNone) {
  EXPECT_EQ(gradient_factor({.scaled_norm = 1e9, .loss_scale = 4.0}), 0.25F);
}

TEST(GradientFactor, ANonFiniteNormClipsNothing) {
  for (const double norm : {kInfinity, kNaN}) {
    EXPECT_EQ(gradient_factor({.scaled_norm = norm, .loss_scale = 8.0, .clip = 1.0}), 0.125F);
  }
}

// DeepSpeed unscales by the scale after the update, which halves the gradients of every step at
// which the scale doubles. The scale to pass is the one before.
TEST(GradientFactor, AStepAtWhichTheScaleDoublesUnscalesByTheOldOne) {
  auto options = in_dtype(DType::fp16);
  options.fp16.loss_scale_window = 1;
  LossScaler scaler(options);
  scaler.update(false);
  const double made_with = scaler.scale();
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 2.0 * made_with);
  EXPECT_EQ(gradient_factor({.scaled_norm = 1.0, .loss_scale = made_with, .clip = 1.0}),
            static_cast<float>(1.0 / made_with));
}

TEST(GradientFactor, NonsenseIsACheck) {
  EXPECT_THROW(gradient_factor({.loss_scale = 0.0}), InvariantError);
  EXPECT_THROW(gradient_factor({.clip = -1.0}), InvariantError);
}

TEST(MeanFactors, EverythingComesAfterTheSumByDefault) {
  const MeanFactors factors = mean_factors({}, 3);
  EXPECT_EQ(factors.before_sum, 1.0F);
  EXPECT_EQ(factors.after_sum, static_cast<float>(1.0 / 3.0));
}

TEST(MeanFactors, PrescalingDividesBeforeTheSum) {
  PrecisionOptions options;
  options.prescale_gradients = true;
  options.gradient_predivide_factor = 4.0;  // has no say then
  const MeanFactors factors = mean_factors(options, 8);
  EXPECT_EQ(factors.before_sum, 0.125F);
  EXPECT_EQ(factors.after_sum, 1.0F);
}

TEST(MeanFactors, PredivideSplitsTheDivision) {
  PrecisionOptions options;
  options.gradient_predivide_factor = 4.0;
  for (const int ranks : {1, 4, 8}) {
    const MeanFactors factors = mean_factors(options, ranks);
    EXPECT_EQ(factors.before_sum, 0.25F);
    EXPECT_EQ(factors.before_sum * factors.after_sum, 1.0F / static_cast<float>(ranks));
  }
}

}  // namespace
}  // namespace zeroshard
