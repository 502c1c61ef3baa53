// Which units are persistent and which visits are gathered ahead.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tests/layout/limits.h"
#include "tests/layout/random_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/prefetch.h"

namespace zeroshard {
namespace {

using Ends = std::vector<std::size_t>;
using Units = std::vector<UnitSize>;

Units units_of(const std::vector<std::int64_t>& numels) {
  Units units;
  for (const std::int64_t numel : numels) units.push_back({.numel = numel});
  return units;
}

TEST(Persistence, SmallUnitsAndThoseNeverReleased) {
  Units units = units_of({5, 10, 11, 100});
  units[3].never_released = true;
  EXPECT_EQ(persistent_units(units, {.persistence_numel = 10}),
            (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(persistent_units(units, {.persistence_numel = 0}),
            (std::vector<bool>{false, false, false, true}));
}

TEST(Persistence, TheModelsLimitIsFilledInOrder) {
  const GatherLimits limits = {.persistence_numel = 10, .model_persistence_numel = 12};
  EXPECT_EQ(persistent_units(units_of({5, 9, 7, 1}), limits),
            (std::vector<bool>{true, false, true, false}));
}

TEST(Prefetch, NoneWithoutALimit) {
  EXPECT_EQ(prefetch_ends(units_of({5, 5, 5}), {0, 1, 2}, {}, 0), (Ends{1, 2, 3}));
}

TEST(Prefetch, AnyLimitTakesAtLeastTheNextUnit) {
  const GatherLimits limits = {.prefetch_numel = 1};
  EXPECT_EQ(prefetch_ends(units_of({5, 5, 5, 5}), {0, 1, 2, 3}, limits, 0), (Ends{2, 3, 4, 4}));
}

TEST(Prefetch, StopsOnceTheLimitIsReached) {
  const GatherLimits limits = {.prefetch_numel = 10};
  EXPECT_EQ(prefetch_ends(units_of({9, 5, 5, 5, 5}), {0, 1, 2, 3, 4}, limits, 0),
            (Ends{3, 4, 5, 5, 5}));
}

TEST(Prefetch, LiveLimitCountsEverythingButAlwaysAllowsTheCurrentUnit) {
  const GatherLimits limits = {.prefetch_numel = 1000, .max_live_numel = 12};
  EXPECT_EQ(prefetch_ends(units_of({50, 6, 6, 6}), {0, 1, 2, 3}, limits, 0), (Ends{1, 3, 4, 4}));
  EXPECT_EQ(prefetch_ends(units_of({50, 6, 6, 6}), {0, 1, 2, 3}, limits, 1), (Ends{1, 2, 3, 4}));
}

TEST(Prefetch, AUnitUsedTwiceIsReleasedInBetween) {
  const GatherLimits limits = {.prefetch_numel = 1000};
  EXPECT_EQ(prefetch_ends(units_of({5, 5}), {0, 0, 1, 0}, limits, 0), (Ends{1, 3, 4, 4}));
}

TEST(Prefetch, PhasesAndTheirVisits) {
  EXPECT_EQ(forward_and_backward(3), (std::vector<Phase>{{0, 1, 2}, {2, 1, 0}}));
  EXPECT_EQ(forward_and_backward(0), (std::vector<Phase>{{}, {}}));
  EXPECT_EQ(gathered_visits({2, 1, 0, 1}, {false, true, false}), (Phase{2, 0}));
}

// The three rules, asked anew at every visit of a window that starts there.
Ends expected_ends(const Units& units, const Phase& visits, const GatherLimits& limits,
                   std::int64_t persistent_numel) {
  Ends ends;
  for (std::size_t v = 0; v < visits.size(); ++v) {
    std::set<std::size_t> live = {visits[v]};
    std::int64_t ahead = 0;
    std::size_t end = v + 1;
    for (; end < visits.size() && live.count(visits[end]) == 0; ++end) {
      const std::int64_t next = units[visits[end]].numel;
      const std::int64_t all = persistent_numel + units[visits[v]].numel + ahead + next;
      if (ahead >= limits.prefetch_numel || all > limits.max_live_numel) break;
      live.insert(visits[end]);
      ahead += next;
    }
    ends.push_back(end);
  }
  return ends;
}

TEST(Prefetch, EveryWindowFollowsTheRules) {
  testing::for_each_case(400, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const Units units = units_of(testing::random_numels(random, 5000));
    Phase visits;
    for (std::size_t i = 0; !units.empty() && i < 15; ++i) {
      const auto last = static_cast<std::int64_t>(units.size()) - 1;
      visits.push_back(static_cast<std::size_t>(random.between(0, last)));
    }
    const GatherLimits limits = {.prefetch_numel = random.between(0, 2000),
                                 .max_live_numel = random.between(0, 4000)};
    const std::int64_t persistent = random.between(0, 500);
    const Ends ends = prefetch_ends(units, visits, limits, persistent);
    ASSERT_EQ(ends, expected_ends(units, visits, limits, persistent));
    ASSERT_TRUE(std::is_sorted(ends.begin(), ends.end()));
  });
}

TEST(Prefetch, RefusesBadArguments) {
  const Units units = units_of({5, 5});
  EXPECT_THROW(prefetch_ends(units, {2}, {}, 0), InvariantError);
  EXPECT_THROW(prefetch_ends(units, {0}, {}, -1), InvariantError);
  EXPECT_THROW(prefetch_ends(units, {0}, {.prefetch_numel = -1}, 0), InvariantError);
  EXPECT_THROW(prefetch_ends(units, {0}, {.max_live_numel = -1}, 0), InvariantError);
  EXPECT_THROW(prefetch_ends(units_of({-5}), {0}, {}, 0), InvariantError);
  EXPECT_THROW(prefetch_ends(units_of({kMax}), {0}, {}, 1), InvariantError);
  EXPECT_THROW(persistent_units(units_of({-5}), {}), InvariantError);
  EXPECT_THROW(persistent_units(units, {.persistence_numel = -1}), InvariantError);
  EXPECT_THROW(persistent_units(units, {.model_persistence_numel = -1}), InvariantError);
  EXPECT_THROW(gathered_visits({1}, {false}), InvariantError);
}

TEST(Prefetch, SumsNearTheLargestIntegerDoNotOverflow) {
  const GatherLimits limits = {.prefetch_numel = kMax, .max_live_numel = kMax};
  EXPECT_EQ(prefetch_ends(units_of({kMax - 5, 5, 1}), {0, 1, 2}, limits, 0), (Ends{2, 3, 3}));
}

}  // namespace
}  // namespace zeroshard
