// Where states lie changes no bit: losses, norms and weights of offloaded runs are the resident
// ones'.
#include <algorithm>
#include <atomic>
#include <functional>

#include <gtest/gtest.h>

#include "tests/engine/parity_run.h"
#include "tests/engine/random_plan.h"
#include "zeroshard/device/stalls.h"

namespace zeroshard::test {
namespace {

RunPlan offloaded(RunPlan plan, double ratio, bool parameters) {
  plan.options.offload.optimizer = Tier::host;
  plan.options.offload.optimizer_ratio = ratio;
  if (parameters) plan.options.offload.parameters = Tier::host;
  return plan;
}

// What became of the updates that began early, on all ranks.
struct EarlyUpdates {
  std::atomic<std::int64_t> stood = 0, taken_back = 0;
};

// Updates begin before the norm is known.
RunPlan early(RunPlan plan, EarlyUpdates* seen = nullptr) {
  plan.options.zero.speculative_update = true;
  plan.after = [seen](Engine& engine, Communicator&) {
    SpeculativeUpdates* const early = engine.core().speculation();
    if (seen == nullptr || early == nullptr) return;
    seen->stood += early->updated();
    seen->taken_back += early->taken_back();
  };
  return plan;
}

// A rank's G must be there when its reduction ends.
bool can_begin_early(int stage, int ranks) { return stage > 0 || ranks == 1; }

class Offload : public testing::TestWithParam<std::tuple<int, int, DType>> {};

TEST_P(Offload, EqualsResident) {
  const auto [stage, ranks, dtype] = GetParam();
  for (const std::int64_t micro_steps : {1, 3}) {
    RunPlan plan = small_plan(stage, ranks, dtype, micro_steps);
    plan.options.precision.gradient_clipping = micro_steps > 1 ? 0.0 : 1.0;
    const Trace expected = train(plan);
    for (const double ratio : {1.0, 0.4}) {
      SCOPED_TRACE(testing::Message() << "a = " << micro_steps << ", ratio " << ratio);
      EXPECT_EQ(difference(expected, train(offloaded(plan, ratio, false))), "");
      EarlyUpdates seen;
      EXPECT_EQ(difference(expected, train(early(offloaded(plan, ratio, false), &seen))), "");
      RunPlan unpinned = offloaded(plan, ratio, false);
      unpinned.options.offload.pin_optimizer_memory = false;
      EXPECT_EQ(difference(expected, train(unpinned)), "") << "unpinned";
      if (micro_steps > 1) {
        EXPECT_EQ(seen.stood > 0, can_begin_early(stage, ranks)) << "nothing clips there";
      }
      if (stage < 3) continue;
      EXPECT_EQ(difference(expected, train(offloaded(plan, ratio, true))), "");
    }
  }
}

TEST_P(Offload, EqualsResidentWithClippingAndOtherDtypes) {
  const auto [stage, ranks, dtype] = GetParam();
  RunPlan plan = small_plan(stage, ranks, dtype, 2);
  plan.options.precision.gradient_clipping = 0.05;
  plan.options.precision.grad_accum_dtype = DType::fp32;
  plan.options.precision.communication_data_type = DType::bf16;
  const Trace expected = train(plan);
  EXPECT_EQ(difference(expected, train(offloaded(plan, 1.0, stage == 3))), "");
  EXPECT_EQ(difference(expected, train(early(offloaded(plan, 1.0, false)))), "") << "early";
}

INSTANTIATE_TEST_SUITE_P(Stages, Offload,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2, 3),
                                          testing::Values(DType::fp32, DType::bf16, DType::fp16)));

TEST(OffloadAtRandom, EqualsResident) {
  std::mt19937_64 random(17);
  EarlyUpdates seen;
  for (int i = 0; i < 40; ++i) {
    const RunPlan numbers = random_numbers(random);
    const RunPlan resident = with_random_placement(numbers, random);
    const double ratio = std::uniform_real_distribution<double>(0.0, 1.0)(random);
    const RunPlan away = offloaded(resident, ratio, resident.options.zero.stage == 3 && i % 2 == 0);
    const Trace expected = train(resident);
    EXPECT_EQ(difference(expected, train(away)), "") << describe(resident) << ", ratio " << ratio;
    EXPECT_EQ(difference(expected, train(early(away, &seen))), "")
        << describe(resident) << ", early, ratio " << ratio;
  }
  EXPECT_GT(seen.stood, 0);
  EXPECT_GT(seen.taken_back, 0);
}

// A limit that acts in a few of the run's steps: so many norms are above it.
double seldom_clipping(RunPlan plan) {
  constexpr std::size_t kSteps = 5;
  plan.options.precision.gradient_clipping = 0.0;
  std::vector<double> norms = train(plan).norms;
  std::ranges::sort(norms, std::greater());
  return norms.at(kSteps);
}

// A thousand steps in all. Copies, updates on the host, gathers and reductions begin late at
// random: what is read before it is there shows.
class OffloadRaces : public testing::TestWithParam<std::tuple<int, int, bool>> {};

TEST_P(OffloadRaces, StallsChangeNoBit) {
  const auto [stage, ranks, begins_early] = GetParam();
  RunPlan plan = small_plan(stage, ranks, DType::bf16);
  plan.steps = 125;
  plan.options.precision.gradient_clipping = seldom_clipping(plan);
  const Trace expected = train(plan);
  const std::int64_t before = stalls_so_far();
  const RandomStalls stalls({.seed = static_cast<std::uint64_t>(10 * stage + ranks),
                             .one_in = 8,
                             .at_most = std::chrono::microseconds(300)});
  const RunPlan away = offloaded(plan, 0.7, stage == 3 && !begins_early);
  EarlyUpdates seen;
  EXPECT_EQ(difference(expected, train(begins_early ? early(away, &seen) : away)), "");
  const bool begins = begins_early && can_begin_early(stage, ranks);
  EXPECT_EQ(seen.stood > 0, begins);
  EXPECT_EQ(seen.taken_back > 0, begins) << "no step clipped while updates were early";
  EXPECT_GT(stalls_so_far(), before + plan.steps);
}

// A rank that has nothing to compute in some steps brings zeros for them: into a G that the update
// of the step before may still read.
class OffloadOfAbsentRanks : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(OffloadOfAbsentRanks, ZerosWaitForTheLastUpdate) {
  const auto [stage, ranks] = GetParam();
  for (const std::int64_t micro_steps : {1, 2}) {
    RunPlan plan = small_plan(stage, ranks, DType::bf16, micro_steps);
    plan.steps = 12;
    plan.options.precision.gradient_clipping = 0.0;
    plan.takes_part = [ranks](int rank, int micro) { return micro % (ranks + 1) != rank; };
    const Trace expected = train(plan);
    const RandomStalls stalls(
        {.seed = 29, .one_in = 3, .at_most = std::chrono::microseconds(1500)});
    EXPECT_EQ(difference(expected, train(offloaded(plan, 1.0, false))), "") << micro_steps;
    EXPECT_EQ(difference(expected, train(early(offloaded(plan, 1.0, false)))), "") << micro_steps;
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, OffloadOfAbsentRanks,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2)));

INSTANTIATE_TEST_SUITE_P(Stages, OffloadRaces,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2),
                                          testing::Bool()));

}  // namespace
}  // namespace zeroshard::test
