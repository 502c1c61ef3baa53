// A gradient that is not finite: every rank skips the step, nothing it would have changed changes,
// and the loss scale follows the rule.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "zeroshard/base/error.h"

namespace zeroshard::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

RunPlan fp16_plan(int stage, std::int64_t scale_power) {
  RunPlan plan = small_plan(stage, 3, DType::fp16);
  plan.options.precision.fp16.initial_scale_power = scale_power;
  return plan;
}

// One rank's gradient of one parameter of the root gets `value` added.
AddToLoss spoil(Model& model, const Communicator& comm, int rank, double value) {
  return [&model, spoils = comm.rank() == rank, value](int) {
    const torch::Tensor weight = model->norm->weight.to(torch::kFloat);
    return (weight * (spoils ? value : 0.0)).sum();
  };
}

class Overflow : public testing::TestWithParam<int> {};

TEST_P(Overflow, IsSkippedUntilTheScaleHasFallenFarEnough) {
  // 2^26 times a mean gradient is beyond fp16.
  const RunPlan plan = fp16_plan(GetParam(), 26);
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator&) {
    double scale = std::ldexp(1.0, 26);
    int skipped = 0;
    int applied = 0;
    while (applied < 3 && skipped < 30) {
      const std::vector<double> before = states_of(engine);
      const StepResult result = train_step(plan, model, engine, skipped);
      EXPECT_EQ(result.loss_scale, scale);
      if (result.applied) {
        ++applied;
        EXPECT_TRUE(std::isfinite(result.gradient_norm));
        EXPECT_NE(states_of(engine), before);
        continue;
      }
      EXPECT_EQ(applied, 0);
      EXPECT_EQ(states_of(engine), before);
      // Hysteresis 2: the first overflow is forgiven, each later one halves.
      if (skipped++ > 0) scale /= 2;
      EXPECT_EQ(engine.core().scaler().scale(), scale);
    }
    EXPECT_GT(skipped, 2);
    EXPECT_EQ(applied, 3);
  });
}

TEST_P(Overflow, OnOneRankIsSkippedOnAll) {
  for (const double bad : {kNan, kInfinity}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      RunPlan plan = small_plan(GetParam(), 3, dtype);
      plan.options.precision.fp16.initial_scale_power = 8;
      plan.options.precision.fp16.hysteresis = 1;
      with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
        EXPECT_TRUE(train_step(plan, model, engine, 0).applied);
        const std::vector<double> before = states_of(engine);
        const double scale = engine.core().scaler().scale();
        EXPECT_FALSE(train_step(plan, model, engine, 1, spoil(model, comm, 1, bad)).applied);
        EXPECT_EQ(states_of(engine), before);
        EXPECT_EQ(engine.core().scaler().scale(), dtype == DType::fp16 ? scale / 2 : scale);
        EXPECT_TRUE(train_step(plan, model, engine, 2).applied);
        EXPECT_NE(states_of(engine), before);
      });
    }
  }
}

TEST_P(Overflow, InAnEarlierMicroStepIsSkippedToo) {
  RunPlan plan = small_plan(GetParam(), 2, DType::bf16, 3);
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
    const std::vector<double> before = states_of(engine);
    const AddToLoss bad = spoil(model, comm, 0, kNan);
    const AddToLoss good = spoil(model, comm, -1, 0.0);
    const auto first_alone = [&](int micro) { return micro == 0 ? bad(0) : good(0); };
    EXPECT_FALSE(train_step(plan, model, engine, 0, first_alone).applied);
    EXPECT_EQ(states_of(engine), before);
    EXPECT_TRUE(train_step(plan, model, engine, 1).applied);
  });
}

TEST_P(Overflow, InBf16IsAppliedWhereOneAsksForThat) {
  RunPlan plan = small_plan(GetParam(), 2, DType::bf16);
  plan.options.precision.bf16.check_grad_overflow = false;
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
    const std::vector<double> before = states_of(engine);
    const StepResult result = train_step(plan, model, engine, 0, spoil(model, comm, 1, kNan));
    EXPECT_TRUE(result.applied);
    EXPECT_TRUE(std::isnan(result.gradient_norm));
    std::size_t nans = 0, changed = 0, finite = 0;
    const std::vector<double> after = states_of(engine);
    for (std::size_t i = 0; i < after.size(); ++i) {
      nans += std::isnan(after[i]) ? 1U : 0U;
      finite += std::isfinite(after[i]) ? 1U : 0U;
      changed += std::isfinite(after[i]) && after[i] != before[i] ? 1U : 0U;
    }
    EXPECT_GE(nans, 24U);  // that parameter, and its states on whom they belong to
    EXPECT_GT(changed, finite / 2);
  });
}

TEST_P(Overflow, WithAFixedScaleSkipsAndChangesNoScale) {
  RunPlan plan = small_plan(GetParam(), 2, DType::fp16);
  plan.options.precision.fp16.loss_scale = std::ldexp(1.0, 30);
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator&) {
    const std::vector<double> before = states_of(engine);
    for (int step = 0; step < 3; ++step) {
      const StepResult result = train_step(plan, model, engine, step);
      EXPECT_FALSE(result.applied);
      EXPECT_EQ(result.loss_scale, std::ldexp(1.0, 30));
    }
    EXPECT_EQ(states_of(engine), before);
  });
}

TEST_P(Overflow, AtTheLeastScaleIsAnErrorOnAllRanks) {
  RunPlan plan = small_plan(GetParam(), 2, DType::fp16);
  plan.options.precision.fp16.initial_scale_power = 1;
  plan.options.precision.fp16.hysteresis = 1;
  plan.options.precision.fp16.min_loss_scale = 2;
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
    EXPECT_THROW(train_step(plan, model, engine, 0, spoil(model, comm, 1, kNan)), StateError);
    EXPECT_TRUE(train_step(plan, model, engine, 1).applied);
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, Overflow, testing::Range(0, 4));

}  // namespace
}  // namespace zeroshard::test
