// All memory of a rank, phase by phase, against cases worked out by hand and properties over random
// ones.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/planner/bf16_at.h"
#include "zeroshard/planner/memory_plan.h"
#include "zeroshard/planner/overheads.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kUnit = 6400;  // elements: no padding on 1, 2, 4 or 5 ranks

// Three uses of units that keep 100, work with 150 forward and 180 backward.
ModelActivations three_uses() {
  ModelActivations all{.batch = 10, .tables = 7};
  for (std::size_t i = 0; i < 3; ++i) {
    all.uses.push_back({.unit = i, .kept = 100, .forward = 150, .backward = 180});
  }
  return all;
}

TEST(MemoryPlan, WithoutActivationsItIsTheEnginesAlone) {
  const ModelLayout model = equal_units(3 * kUnit, 3, DType::bf16, 2);
  const MemoryPlan plan = plan_memory(model, bf16_at(2));
  for (const StepPhase phase : kStepPhases) {
    EXPECT_EQ(plan.at(phase).total(Tier::device), plan.engine.total(Tier::device));
  }
  EXPECT_EQ(plan.worst(Tier::device), StepPhase::rest);
}

TEST(MemoryPlan, ActivationsGrowForwardAndShrinkBackward) {
  const ModelLayout model = equal_units(3 * kUnit, 3, DType::bf16, 2);
  const ModelActivations activations = three_uses();
  const MemoryPlan plan =
      plan_memory(model, bf16_at(2), {.activations = &activations, .overheads = {1000, 2000}});
  const std::int64_t engine = plan.engine.total(Tier::device);
  EXPECT_EQ(plan.at(StepPhase::rest).total(Tier::device), engine + 7 + 1000);
  // Two are kept while the third runs.
  EXPECT_EQ(plan.at(StepPhase::forward).total(Tier::device), engine + 7 + 1000 + 10 + 200 + 150);
  EXPECT_EQ(plan.at(StepPhase::backward).total(Tier::device), engine + 7 + 1000 + 10 + 200 + 180);
  EXPECT_EQ(plan.at(StepPhase::step).total(Tier::device), engine + 7 + 1000);
  EXPECT_EQ(plan.worst(Tier::device), StepPhase::backward);
  EXPECT_EQ(plan.peak(Tier::host), 2000);
  const MemoryTable& backward = plan.at(StepPhase::backward);
  EXPECT_EQ(backward.bytes(Line::activations, Tier::device), 7 + 10 + 300);
  EXPECT_EQ(backward.bytes(Line::working, Tier::device), 80);
}

// With one rank and one micro-step gradients are there from backward to the update only, so that
// the peak is where activations and gradients together are most.
TEST(MemoryPlan, GradientsThatAreHeldArriveOneByOne) {
  const ModelLayout model = equal_units(3 * kUnit, 3, DType::bf16, 1);
  const ModelActivations activations = three_uses();
  const MemoryPlan plan = plan_memory(model, bf16_at(0), {.activations = &activations});
  const std::int64_t gradient = 2 * kUnit;
  const std::int64_t states = plan.engine.total(Tier::device) - 3 * gradient;
  EXPECT_EQ(plan.at(StepPhase::rest).total(Tier::device), states + 7);
  EXPECT_EQ(plan.at(StepPhase::forward).total(Tier::device), states + 7 + 10 + 350);
  // In the first unit's backward those of the two others are there.
  EXPECT_EQ(plan.at(StepPhase::backward).total(Tier::device), states + 7 + 10 + 2 * gradient + 180);
  EXPECT_EQ(plan.at(StepPhase::step).total(Tier::device), states + 7 + 3 * gradient);
}

// Whatever they would be added up in.
TEST(MemoryPlan, HeldGradientsHaveTheirOwnDtype) {
  const ModelLayout model = equal_units(3 * kUnit, 3, DType::bf16, 1);
  for (int stage = 0; stage < 4; ++stage) {
    FootprintOptions options = bf16_at(stage);
    options.precision.grad_accum_dtype = DType::fp32;
    const MemoryPlan plan = plan_memory(model, options);
    EXPECT_EQ(plan.at(StepPhase::rest).bytes(Line::gradients, Tier::device), 0) << stage;
    EXPECT_EQ(plan.at(StepPhase::step).bytes(Line::gradients, Tier::device), 3 * 2 * kUnit);
    options.precision.gradient_predivide_factor = 2.0;  // which they cannot be held through
    EXPECT_EQ(plan_memory(model, options).at(StepPhase::rest).bytes(Line::gradients, Tier::device),
              3 * kUnit * (stage < 2 ? 4 : 2))
        << stage;
  }
}

TEST(MemoryPlan, KeptGradientsAreThereAllTheTime) {
  const ModelLayout model = equal_units(3 * kUnit, 3, DType::bf16, 1);
  FootprintOptions options = bf16_at(0);
  options.micro_steps = 2;
  const MemoryPlan plan = plan_memory(model, options);
  EXPECT_EQ(plan.at(StepPhase::rest).bytes(Line::gradients, Tier::device), 3 * 2 * kUnit);
}

// A gradient on its way to the host is among what its own unit works with, and then passes.
TEST(MemoryPlan, GradientsThatLeavePassThrough) {
  const ModelLayout model = equal_units(3 * kUnit, 3, DType::bf16, 1);
  FootprintOptions options = bf16_at(2);
  options.offload.optimizer = Tier::host;
  const ModelActivations activations = three_uses();
  const MemoryPlan plan = plan_memory(model, options, {.activations = &activations});
  EXPECT_EQ(plan.at(StepPhase::rest).bytes(Line::gradients, Tier::device), 0);
  // The first unit's, complete at the end of backward.
  EXPECT_EQ(plan.at(StepPhase::step).bytes(Line::gradients, Tier::device), 2 * kUnit);
  const std::int64_t parameters = 3 * 2 * kUnit;
  // One unit's at most, beside the second unit's backward.
  EXPECT_EQ(plan.at(StepPhase::backward).total(Tier::device),
            parameters + 7 + 10 + 100 + 180 + 2 * kUnit);
}

// A table that two units share has its gradient when both are over.
TEST(MemoryPlan, WhatAUseLeavesIsThereUntilTheEnd) {
  const ModelLayout model = equal_units(3 * kUnit, 3, DType::bf16, 2);
  ModelActivations activations = three_uses();
  activations.uses.back().left = 5000;
  const MemoryPlan plan = plan_memory(model, bf16_at(2), {.activations = &activations});
  const std::int64_t engine = plan.engine.total(Tier::device);
  EXPECT_EQ(plan.at(StepPhase::backward).total(Tier::device), engine + 17 + 5000 + 100 + 180);
}

TEST(MemoryPlan, LogitsHaveALineOfTheirOwn) {
  const ModelLayout model = equal_units(kUnit, 1, DType::bf16, 2);
  const ModelActivations activations{
      .uses = {{.unit = 0, .kept = 90, .forward = 130, .backward = 120, .logits = 80}}};
  const MemoryPlan plan = plan_memory(model, bf16_at(2), {.activations = &activations});
  const MemoryTable& forward = plan.at(StepPhase::forward);
  EXPECT_EQ(forward.bytes(Line::logits, Tier::device), 80);
  EXPECT_EQ(forward.bytes(Line::activations, Tier::device), 10);
  EXPECT_EQ(forward.bytes(Line::working, Tier::device), 40);
}

class RandomPlans : public testing::TestWithParam<unsigned> {};

// Lines add up, no phase of the engine's is more than all of it at once, the host holds what the
// footprint says, and every variant of offload leaves less on the device.
TEST_P(RandomPlans, AddUp) {
  std::mt19937 random(GetParam());
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 60; ++round) {
    const int ranks = pick(1, 6), units = pick(1, 9);
    const ModelLayout model = equal_units(pick(1, 4'000'000), units, DType::bf16, ranks);
    ModelActivations activations{.batch = pick(0, 1000), .tables = pick(0, 1000)};
    for (int i = 0; i < units; ++i) {
      const std::int64_t kept = pick(0, 100'000);
      activations.uses.push_back({.unit = static_cast<std::size_t>(i),
                                  .kept = kept,
                                  .forward = kept + pick(0, 50'000),
                                  .backward = kept + pick(0, 90'000)});
    }
    FootprintOptions options = bf16_at(pick(0, 3));
    options.micro_steps = pick(1, 3);
    options.accelerator = pick(0, 1) == 1;
    std::int64_t before = std::numeric_limits<std::int64_t>::max();
    for (const Tier tier : {Tier::device, Tier::host}) {
      options.offload.optimizer = tier;
      const MemoryPlan plan =
          plan_memory(model, options, {.activations = &activations, .overheads = {11, 13}});
      for (const StepPhase phase : kStepPhases) {
        const MemoryTable& table = plan.at(phase);
        EXPECT_LE(table.engine_total(Tier::device), plan.engine.total(Tier::device));
        EXPECT_EQ(table.engine_total(Tier::host), plan.engine.total(Tier::host));
        EXPECT_EQ(table.total(Tier::host), plan.engine.total(Tier::host) + 13);
        EXPECT_LE(table.total(Tier::device), plan.peak(Tier::device));
      }
      EXPECT_GE(plan.at(StepPhase::backward).total(Tier::device),
                plan.at(StepPhase::rest).total(Tier::device));
      EXPECT_LE(plan.at(StepPhase::rest).total(Tier::device), before);
      before = plan.at(StepPhase::rest).total(Tier::device);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, testing::Values(1U, 2U, 3U));

TEST(Overheads, AreTheHostsOnACpuAndOnBothElsewhere) {
  const Overheads cpu = process_overheads({.ranks = 2, .ranks_on_host = 2}).all();
  EXPECT_EQ(cpu.device_bytes, 0);
  EXPECT_GT(cpu.host_bytes, process_overheads({}).all().host_bytes) << "peers share memory";
  const Overheads gpu = process_overheads({.accelerator = true}).all();
  EXPECT_GT(gpu.device_bytes, 0);
}

}  // namespace
}  // namespace zeroshard
