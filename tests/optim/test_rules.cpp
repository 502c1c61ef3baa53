// What each optimizer promises on single numbers, and what a span's edges promise.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/optim/optim_support.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

using testing::Random;
using testing::States;

// One fp32 parameter with its moments, moved by one gradient.
struct One {
  float parameter = 1.0F, first = 0.0F, second = 0.0F;

  void update(const OptimizerOptions& options, float gradient, std::int64_t step = 1) {
    ThreadPool pool(1);
    update_span(
        options,
        {.gradient = &gradient, .master = &parameter, .moments = {&first, &second}, .count = 1},
        {.step = step}, pool);
  }
};

TEST(Adam, FirstStepMovesByLearningRateWhateverTheGradient) {
  for (const float gradient : {1e-3F, 0.5F, -700.0F}) {
    One one;
    one.update(AdamOptions{.lr = 0.01}, gradient);
    EXPECT_NEAR(one.parameter, 1.0F - std::copysign(0.01F, gradient), 1e-6F);
  }
}

TEST(Adam, WithoutBiasCorrectionFirstStepIsSmallerByIt) {
  One one;
  one.update(AdamOptions{.lr = 0.01, .bias_correction = false}, 1.0F);
  EXPECT_NEAR(one.parameter, 1.0 - 0.01 * 0.1 / std::sqrt(0.001), 1e-6);
}

TEST(Adam, DecayIsDecoupledUnlessToldOtherwise) {
  One decoupled, coupled;
  decoupled.update(AdamOptions{.lr = 0.1, .weight_decay = 0.5}, 0.0F);
  EXPECT_FLOAT_EQ(decoupled.parameter, 0.95F);
  EXPECT_EQ(decoupled.first, 0.0F);
  coupled.update(AdamOptions{.lr = 0.1, .weight_decay = 0.5, .decoupled_decay = false}, 0.0F);
  EXPECT_NEAR(coupled.parameter, 0.9F, 1e-6F);
  EXPECT_FLOAT_EQ(coupled.first, 0.05F);
}

TEST(Sgd, FirstStepCopiesTheGradientUndampened) {
  const SgdOptions options{.lr = 0.1, .momentum = 0.9, .dampening = 0.5};
  One one{.first = std::numeric_limits<float>::quiet_NaN()};  // never read
  one.update(options, 2.0F, 1);
  EXPECT_EQ(one.first, 2.0F);
  one.update(options, 2.0F, 2);
  EXPECT_FLOAT_EQ(one.first, 0.9F * 2.0F + 0.5F * 2.0F);
}

TEST(Sgd, NesterovLooksAhead) {
  One one;
  one.update(SgdOptions{.lr = 0.1, .momentum = 0.5, .nesterov = true}, 2.0F);
  EXPECT_FLOAT_EQ(one.parameter, 1.0F - 0.1F * (2.0F + 0.5F * 2.0F));
}

TEST(Lion, MovesByTheSignAndZeroHasNone) {
  One up, down, still;
  up.update(LionOptions{.lr = 0.25}, -1e-30F);
  EXPECT_EQ(up.parameter, 1.25F);
  down.update(LionOptions{.lr = 0.25}, 1e30F);
  EXPECT_EQ(down.parameter, 0.75F);
  for (const float zero : {0.0F, -0.0F}) {
    still.update(LionOptions{.lr = 0.25}, zero);
    EXPECT_EQ(still.parameter, 1.0F);
  }
}

TEST(Lion, NaNDoesNotGetLost) {
  One one;
  one.update(LionOptions{}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(one.parameter));
  EXPECT_TRUE(std::isnan(one.first));
}

TEST(Adagrad, NumeratorHasTheDecayTerm) {
  One one;
  one.update(AdagradOptions{.lr = 0.1, .weight_decay = 3.0}, 1.0F);
  EXPECT_FLOAT_EQ(one.first, 16.0F);
  EXPECT_FLOAT_EQ(one.parameter, 0.9F);  // 4 / sqrt(16)
}

TEST(UpdateSpan, GradientFactorIsAppliedFirst) {
  One scaled, plain;
  const SgdOptions options{.lr = 1.0, .weight_decay = 0.1};
  plain.update(options, 0.125F);
  ThreadPool pool(1);
  const float gradient = 0.5F;
  update_span(options, {.gradient = &gradient, .master = &scaled.parameter, .count = 1},
              {.gradient_factor = 0.25F}, pool);
  EXPECT_EQ(scaled.parameter, plain.parameter);
}

// Moments that decay without gradients reach zero instead of the slow subnormals.
TEST(UpdateSpan, DecayingMomentsEndAtZero) {
  One one{.first = 1e-37F, .second = 1e-37F};
  for (int i = 0; i < 5000; ++i) one.update(AdamOptions{}, 0.0F, i + 1);
  EXPECT_EQ(one.first, 0.0F);
  EXPECT_EQ(one.second, 0.0F);
}

TEST(UpdateSpan, ParameterIsTheMasterRounded) {
  Random random(31);
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    States states = plausible_states(random, 1003, DType::fp32, dtype);
    ThreadPool pool(1);
    update_span(AdamOptions{}, states.span(0, states.count()), {}, pool);
    for (std::size_t i = 0; i < states.master.size(); ++i) {
      const float master = states.master[i];
      const auto rounded = dtype == DType::bf16 ? fp32_to_bf16(master) : fp32_to_fp16(master);
      ASSERT_EQ(states.parameter[i], rounded) << i;
    }
  }
}

TEST(UpdateSpan, NothingOutsideTheSpanIsTouched) {
  Random random(32);
  ThreadPool pool(1);
  for (std::int64_t count = 0; count < 70; ++count) {
    const States before = plausible_states(random, count + 40, DType::bf16, DType::bf16);
    States after = before;
    update_span(AdamOptions{}, after.span(17, 17 + count), {}, pool);
    for (std::int64_t k = 0; k < after.count(); ++k) {
      const auto i = static_cast<std::size_t>(k);
      if (k >= 17 && k < 17 + count) continue;
      ASSERT_EQ(after.master[i], before.master[i]) << count << ", " << i;
      ASSERT_EQ(after.first[i], before.first[i]) << count << ", " << i;
      ASSERT_EQ(after.second[i], before.second[i]) << count << ", " << i;
      ASSERT_EQ(after.parameter[i], before.parameter[i]) << count << ", " << i;
    }
  }
}

TEST(UpdateSpan, MissingArraysAndWrongDtypesAreChecks) {
  ThreadPool pool(1);
  float value = 0.0F;
  const UpdateSpan whole{
      .gradient = &value, .master = &value, .moments = {&value, &value}, .count = 1};
  UpdateSpan span = whole;
  span.moments[1] = nullptr;
  EXPECT_THROW(update_span(AdamOptions{}, span, {}, pool), InvariantError);
  span = whole;
  span.gradient_dtype = DType::int32;
  EXPECT_THROW(update_span(SgdOptions{}, span, {}, pool), InvariantError);
  span = whole;
  span.parameter = &value;
  span.parameter_dtype = DType::fp32;
  EXPECT_THROW(update_span(SgdOptions{}, span, {}, pool), InvariantError);
  EXPECT_THROW(update_span(AdamOptions{}, whole, {.step = 0}, pool), InvariantError);
}

}  // namespace
}  // namespace zeroshard
