// The order of gathers comes from a plan: ranks that use different units issue the same ones.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "zeroshard/engine/gather_schedule.h"

namespace zeroshard {
namespace {

using Action = GatherSchedule::Action;
using enum PhaseKind;

// Four units of ten elements; two are gathered ahead.
GatherSchedule schedule_of(std::int64_t prefetch_numel, std::vector<bool> resident = {}) {
  resident.resize(4, false);
  return {std::vector<UnitSize>(4, {.numel = 10, .bytes = 40}),
          resident,
          {.prefetch_numel = prefetch_numel}};
}

std::vector<std::size_t> units_of(const GatherSchedule::Actions& actions) {
  std::vector<std::size_t> units;
  for (const Action& each : actions) {
    if (each.gather) units.push_back(each.unit);
  }
  return units;
}

Phase skipped_by(const GatherSchedule::Actions& actions) {
  Phase units;
  for (const Action& each : actions) {
    if (each.skipped) units.push_back(each.unit);
  }
  return units;
}

TEST(GatherSchedule, GathersWhatIsReachedAndWhatIsAhead) {
  GatherSchedule schedule = schedule_of(20);
  EXPECT_EQ(units_of(schedule.reach(train_forward, 0)), (Phase{0, 1, 2}));
  EXPECT_EQ(units_of(schedule.reach(train_forward, 1)), (Phase{3}));
  EXPECT_EQ(units_of(schedule.reach(train_forward, 2)), Phase{});
  EXPECT_EQ(units_of(schedule.reach(train_forward, 3)), Phase{});
  EXPECT_EQ(units_of(schedule.reach(backward, 3)), (Phase{3, 2, 1}));
}

TEST(GatherSchedule, SkippedUnitsAreGatheredForTheOthersAndDropped) {
  GatherSchedule schedule = schedule_of(0);
  const auto late = schedule.reach(train_forward, 2);
  EXPECT_EQ(late, (GatherSchedule::Actions{{0, true, true}, {1, true, true}, {2, true, false}}));
  EXPECT_EQ(units_of(schedule.finish()), Phase{3});

  GatherSchedule ahead = schedule_of(20);
  ahead.reach(train_forward, 0);
  EXPECT_EQ(ahead.reach(train_forward, 3),
            (GatherSchedule::Actions{{1, false, true}, {2, false, true}, {3, true, false}}));
}

TEST(GatherSchedule, ResidentUnitsNeedNoGather) {
  GatherSchedule schedule = schedule_of(20, {false, true, false, false});
  EXPECT_EQ(units_of(schedule.reach(train_forward, 0)), (Phase{0, 2, 3}));
  EXPECT_TRUE(schedule.reach(train_forward, 1).empty());
}

// In its place among the gathers: that is where other ranks reduce its gradients.
TEST(GatherSchedule, ASkippedResidentUnitIsTold) {
  GatherSchedule schedule = schedule_of(0, {false, true, false, false});
  EXPECT_EQ(schedule.reach(backward, 0),
            (GatherSchedule::Actions{
                {3, true, true}, {2, true, true}, {1, false, true}, {0, true, false}}));
  GatherSchedule used = schedule_of(0, {false, true, false, false});
  EXPECT_EQ(skipped_by(used.reach(backward, 1)), (Phase{3, 2}));
  EXPECT_EQ(skipped_by(used.reach(backward, 0)), Phase{});
}

TEST(GatherSchedule, TheFirstUnitComesRound) {
  GatherSchedule schedule = schedule_of(0);
  for (const std::size_t unit : {0, 1}) schedule.reach(eval, unit);
  EXPECT_EQ(units_of(schedule.reach(eval, 0)), (Phase{2, 3, 0}));
  EXPECT_EQ(schedule.observed(eval), (Phase{0, 1}));
}

TEST(GatherSchedule, AUseBeyondThePlanIsOneGather) {
  GatherSchedule schedule = schedule_of(0);
  for (const std::size_t unit : {0, 1}) schedule.reach(train_forward, unit);
  EXPECT_EQ(schedule.reach(train_forward, 1), (GatherSchedule::Actions{{1, true, false}}));
  EXPECT_EQ(units_of(schedule.reach(train_forward, 2)), Phase{2});
}

TEST(GatherSchedule, SeveralPassesOfTrainingAreOneOrder) {
  GatherSchedule schedule = schedule_of(0);
  const Phase twice{0, 1, 2, 3, 0, 1, 2, 3};
  for (const std::size_t unit : twice) schedule.reach(train_forward, unit);
  schedule.finish();
  EXPECT_EQ(schedule.observed(train_forward), twice);
  schedule.plan(train_forward, twice);
  Phase issued;
  for (const std::size_t unit : twice) {
    for (const Action& each : schedule.reach(train_forward, unit)) {
      EXPECT_FALSE(each.skipped);
      issued.push_back(each.unit);
    }
  }
  EXPECT_EQ(issued, twice);
}

TEST(GatherSchedule, AnAbandonedPassTeachesNothing) {
  GatherSchedule schedule = schedule_of(0);
  for (const std::size_t unit : {0, 1}) schedule.reach(train_forward, unit);
  schedule.abandon_pass();
  for (const std::size_t unit : {0, 2, 1, 3}) schedule.reach(train_forward, unit);
  schedule.finish();
  EXPECT_EQ(schedule.observed(train_forward), (Phase{0, 2, 1, 3}));
}

TEST(GatherSchedule, AnOrderThatWasSeenLosesNoUnit) {
  GatherSchedule schedule = schedule_of(0);
  EXPECT_EQ(schedule.merged(train_forward, {0, 2, 3}), (Phase{0, 1, 2, 3}));
  EXPECT_EQ(schedule.merged(train_forward, {1, 3}), (Phase{0, 1, 2, 3}));
  EXPECT_EQ(schedule.merged(train_forward, {3, 0, 1, 0}), (Phase{3, 0, 1, 2, 0}));
  EXPECT_EQ(schedule.merged(train_forward, {}), (Phase{0, 1, 2, 3}));
}

TEST(GatherSchedule, PassingOverIssuesThePlan) {
  GatherSchedule schedule = schedule_of(0);
  schedule.reach(train_forward, 1);
  EXPECT_EQ(units_of(schedule.pass_over(backward)), (Phase{2, 3, 3, 2, 1, 0}));
  EXPECT_TRUE(schedule.observed(backward).empty());
}

// Any rank may skip any visits of the plan; what it issues is the plan, once, in order.
TEST(GatherSchedule, EverySubsetOfAPlanIssuesThePlan) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    GatherSchedule schedule = schedule_of(static_cast<std::int64_t>(random() % 5) * 10);
    Phase plan(1 + random() % 8);
    for (std::size_t& unit : plan) unit = random() % 4;
    schedule.plan(backward, plan);  // which never comes round
    Phase issued, skipped, reached;
    const auto run = [&](const GatherSchedule::Actions& actions) {
      for (const std::size_t unit : units_of(actions)) issued.push_back(unit);
      for (const std::size_t unit : skipped_by(actions)) skipped.push_back(unit);
    };
    for (const std::size_t unit : plan) {
      if (random() % 3 == 0) continue;
      run(schedule.reach(backward, unit));
      reached.push_back(unit);
    }
    run(issued.empty() ? schedule.pass_over(backward) : schedule.finish());
    // A use counts for the first visit that the plan still has of the unit.
    Phase left_out = plan;
    auto from = left_out.begin();
    for (const std::size_t unit : reached) {
      from = left_out.erase(std::find(from, left_out.end(), unit));
    }
    ASSERT_EQ(issued, plan) << "round " << round;
    ASSERT_EQ(skipped, left_out) << "round " << round;
  }
}

}  // namespace
}  // namespace zeroshard
