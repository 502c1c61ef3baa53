// A step walked through: against the closed forms of docs/scaling.md for equal units, and within
// the bounds that hold for all.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/layout/random_cases.h"
#include "zeroshard/planner/step_walk.h"

namespace zeroshard {
namespace {

constexpr double kTolerance = 1e-9;

// L equal units, each a bucket; backward takes twice as long as forward.
struct Equal {
  std::size_t units = 10;
  double forward = 1;
  double gather = 0;
  double reduce = 0;
  std::int64_t micro_steps = 1;
  std::size_t slots = 2;
  std::size_t ahead = 1;
  bool sharded = false;

  WalkedStep step() const {
    WalkedStep step{.bucket_slots = slots, .micro_steps = micro_steps, .reduces_each = true};
    for (std::size_t i = 0; i < units; ++i) {
      step.units.push_back(
          {.forward = forward, .backward = 2 * forward, .gather = gather, .released = sharded});
      step.buckets.push_back({.units = {units - 1 - i}, .reduce = reduce});
      step.forward.visits.push_back(i);
      step.backward.visits.push_back(units - 1 - i);
      step.forward.ends.push_back(std::min(i + 1 + ahead, units));
    }
    step.backward.ends = step.forward.ends;
    return step;
  }
  double seconds() const { return walk_seconds(step()); }
};

TEST(StepWalk, WithoutANetworkItIsWhatIsComputed) {
  EXPECT_NEAR(Equal{}.seconds(), 30, kTolerance);
  EXPECT_NEAR((Equal{.micro_steps = 4}.seconds()), 120, kTolerance);
}

// Stages 1 and 2: the first gather and the last reduction have nothing to hide behind.
TEST(StepWalk, TheRefreshHidesBehindTheNextForward) {
  EXPECT_NEAR((Equal{.gather = 0.5, .reduce = 0.5}.seconds()), 30 + 0.5 + 0.5, kTolerance);
  EXPECT_NEAR((Equal{.gather = 3}.seconds()), 10 * 3 + 1 + 20, kTolerance) << "forward waits";
  EXPECT_NEAR((Equal{.reduce = 5}.seconds()), 10 + 2 + 10 * 5, kTolerance) << "backward waits";
}

// Stage 3: g + (L-1) max(f, g) + f forward, the same backward with what is reduced meanwhile.
TEST(StepWalk, GathersHideBehindTheUnitBefore) {
  const auto seconds = [](double gather) {
    return Equal{.gather = gather, .sharded = true}.seconds();
  };
  EXPECT_NEAR(seconds(0.5), (0.5 + 10) + (0.5 + 20), kTolerance);
  EXPECT_NEAR(seconds(1.5), (1.5 + 9 * 1.5 + 1) + (1.5 + 20), kTolerance) << "forward waits";
  EXPECT_NEAR(seconds(4), (10 * 4 + 1) + (10 * 4 + 2), kTolerance) << "both wait";
}

// In backward the sums travel, too: after all but the first gather, and one after the last unit.
TEST(StepWalk, GathersAndSumsShareTheNetwork) {
  const auto seconds = [](double each) {
    return Equal{.gather = each, .reduce = each, .sharded = true}.seconds();
  };
  EXPECT_NEAR(seconds(0.5), (0.5 + 10) + (0.5 + 20) + 0.5, kTolerance);
  EXPECT_NEAR(seconds(3), (10 * 3 + 1) + 10 * (3 + 3), kTolerance);
}

TEST(StepWalk, WithNothingAheadEveryGatherIsWaitedFor) {
  Equal each{.gather = 0.5, .ahead = 0, .sharded = true};
  EXPECT_NEAR(each.seconds(), 30 + 20 * 0.5, kTolerance);
  each.ahead = 3;
  EXPECT_NEAR(each.seconds(), 30 + 2 * 0.5, kTolerance) << "no better than one ahead";
}

// A third bucket needs the buffer of the first. Reduced where they lie, buckets wait for nothing.
TEST(StepWalk, BucketsWaitForTheirBuffers) {
  Equal each{.reduce = 5, .slots = 1};
  EXPECT_NEAR(each.seconds(), 10 + 10 * (2 + 5), kTolerance);
  each.slots = 0;
  EXPECT_NEAR(each.seconds(), 10 + 2 + 10 * 5, kTolerance);
}

// One bucket of everything is reduced when all is over.
TEST(StepWalk, ALargeBucketIsTheTail) {
  WalkedStep step = Equal{}.step();
  std::vector<std::size_t> all(10);
  std::iota(all.rbegin(), all.rend(), 0);
  step.buckets = {{.units = all, .reduce = 4}};
  EXPECT_NEAR(walk_seconds(step), 30 + 4, kTolerance);
}

TEST(StepWalk, StageZeroGathersTheSumsBesideNothing) {
  WalkedStep step = Equal{.reduce = 0.5}.step();
  for (WalkedUnit& unit : step.units) unit.gradient_gather = 0.5;
  step.agreement = 0.25;
  EXPECT_NEAR(walk_seconds(step), 30 + 0.5 + 0.25 + 10 * 0.5, kTolerance);
}

// All but the last bucket's, which follow the norm; the last but one's follow the last reduction.
TEST(StepWalk, SumsAreGatheredBehindTheNextBucket) {
  WalkedStep step = Equal{.reduce = 0.5}.step();
  for (WalkedUnit& unit : step.units) unit.gradient_gather = 0.5;
  step.agreement = 0.25;
  step.gathers_behind = true;
  EXPECT_NEAR(walk_seconds(step), 30 + (0.5 + 0.5) + 0.25 + 0.5, kTolerance);
  for (WalkedBucket& bucket : step.buckets) bucket.reduce = 3;
  EXPECT_NEAR(walk_seconds(step), 10 + 2 + 10 * 3 + 9 * 0.5 + 0.25 + 0.5, kTolerance)
      << "the network is what takes longest, and never idle";
}

TEST(StepWalk, TheRootUnitIsThereBeforeForwardAndCompleteAfterBackward) {
  WalkedStep step = Equal{.gather = 0.5, .reduce = 0.5}.step();
  step.root_unit = 0;
  EXPECT_NEAR(walk_seconds(step), 30 + 0.5 + 0.5, kTolerance);
  step.buckets.back().reduce = 7;  // of unit 0, and of no hurry to anybody else
  EXPECT_NEAR(walk_seconds(step), 30 + 0.5 + 7, kTolerance);
}

TEST(StepWalk, OtherReasonsToWaitRunBesideTheNetwork) {
  WalkedStep step = Equal{.gather = 0.5, .reduce = 0.5}.step();
  step.least_first_forward = 15;
  step.least_last_backward = 25;
  EXPECT_NEAR(walk_seconds(step), 15 + 25, kTolerance);
}

TEST(StepWalk, ManyMicroStepsAreAlike) {
  const auto seconds = [](std::int64_t micro_steps) {
    return Equal{.gather = 1.5, .reduce = 1, .micro_steps = micro_steps, .sharded = true}.seconds();
  };
  const double each = seconds(4) - seconds(3);
  EXPECT_GT(each, 30);
  for (const std::int64_t more : {1, 2, 7, 1'000'000}) {
    EXPECT_NEAR(seconds(4 + more), seconds(4) + static_cast<double>(more) * each,
                1e-9 * static_cast<double>(more) * each);
  }
}

// However units and buckets are cut: no quicker than either lane, no slower than both in turns.
TEST(StepWalk, IsBetweenTheLanesAndTheirSum) {
  testing::for_each_case(200, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const auto some = [&] { return static_cast<double>(random.between(0, 100)) / 100; };
    Equal shape{.units = static_cast<std::size_t>(random.between(1, 12)),
                .micro_steps = random.between(1, 3),
                .slots = static_cast<std::size_t>(random.between(0, 2)),
                .ahead = static_cast<std::size_t>(random.between(0, 4)),
                .sharded = random.between(0, 1) == 1};
    WalkedStep step = shape.step();
    step.agreement = some();
    const auto micro_steps = static_cast<double>(shape.micro_steps);
    double computed = 0, sent = step.agreement;
    for (WalkedUnit& unit : step.units) {
      unit = {.forward = some(),
              .backward = some(),
              .update = some(),
              .gather = some(),
              .released = shape.sharded};
      computed += micro_steps * (unit.forward + unit.backward) + unit.update;
      sent += unit.gather * (shape.sharded ? 2 * micro_steps : 1);
    }
    for (WalkedBucket& bucket : step.buckets) {
      bucket.reduce = some();
      sent += micro_steps * bucket.reduce;
    }
    const double seconds = walk_seconds(step);
    EXPECT_GE(seconds, std::max(computed, sent) - kTolerance);
    EXPECT_LE(seconds, computed + sent + kTolerance);
  });
}

}  // namespace
}  // namespace zeroshard
