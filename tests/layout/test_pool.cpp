// Pool and ring sizes. The gather pool is held to a simulation that gathers and releases unit by
// unit the way an engine does.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/layout/limits.h"
#include "tests/layout/random_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/pool.h"

namespace zeroshard {
namespace {

using Units = std::vector<UnitSize>;

// Gathers one unit at a time and remembers the most it ever held.
struct Simulation {
  Units units;
  GatherLimits limits;
  std::set<std::size_t> persistent;
  std::set<std::size_t> live;
  std::vector<std::int64_t> slots = {};  // by unit: the class it takes
  std::map<std::int64_t, std::int64_t> most_of_size = {};
  std::map<std::int64_t, std::int64_t> most_of_own_size = {};
  std::int64_t most_bytes = 0;

  std::int64_t slot_bytes(std::size_t unit) const { return (units[unit].bytes + 255) / 256 * 256; }

  std::int64_t numel_of(const std::set<std::size_t>& which) const {
    std::int64_t sum = 0;
    for (const std::size_t unit : which) sum += units[unit].numel;
    return sum;
  }

  void keep_small_units() {
    std::int64_t sum = 0;
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      const std::int64_t numel = units[unit].numel;
      const bool small =
          numel <= limits.persistence_numel && sum + numel <= limits.model_persistence_numel;
      if (units[unit].never_released || small) persistent.insert(unit);
      if (small && !units[unit].never_released) sum += numel;
    }
  }

  void gather(std::size_t unit) {
    live.insert(unit);
    std::map<std::int64_t, std::int64_t> now, now_of_own_size;
    std::int64_t bytes = 0;
    for (const std::size_t held : live) {
      ++now[slots.at(held)];
      ++now_of_own_size[slot_bytes(held)];
      bytes += slot_bytes(held);
    }
    for (const auto& [size, count] : now) raise(most_of_size[size], count);
    for (const auto& [size, count] : now_of_own_size) raise(most_of_own_size[size], count);
    raise(most_bytes, bytes);
  }

  static void raise(std::int64_t& most, std::int64_t now) { most = std::max(most, now); }

  // What a pool needs in which only units of equal size share.
  std::int64_t bytes_without_sharing() const {
    std::int64_t sum = 0;
    for (const auto& [size, count] : most_of_own_size) sum += size * count;
    return sum;
  }

  bool may_go_ahead(std::size_t current, std::size_t next) const {
    const std::int64_t live_numel = numel_of(live);
    return live_numel - units[current].numel < limits.prefetch_numel &&
           numel_of(persistent) + live_numel + units[next].numel <= limits.max_live_numel;
  }

  void run(const std::vector<std::size_t>& order) {
    for (std::size_t v = 0; v < order.size(); ++v) {
      if (persistent.count(order[v])) continue;
      if (!live.count(order[v])) gather(order[v]);
      for (std::size_t next = v + 1; next < order.size(); ++next) {
        if (persistent.count(order[next]) || live.count(order[next])) continue;
        if (!may_go_ahead(order[v], order[next])) break;
        gather(order[next]);
      }
      live.erase(order[v]);
    }
  }
};

Units random_units(testing::Random& random) {
  static constexpr std::int64_t kSizes[] = {70, 128, 640, 641};
  Units units(static_cast<std::size_t>(random.between(0, 14)));
  const bool few_sizes = random.chance(60);
  for (UnitSize& unit : units) {
    unit.numel = few_sizes ? kSizes[random.between(0, 3)] : testing::random_numel(random);
    unit.bytes = 2 * unit.numel;
    unit.never_released = random.chance(5);
  }
  return units;
}

GatherLimits random_limits(testing::Random& random) {
  return {.persistence_numel = random.chance(50) ? 0 : random.between(0, 150),
          .model_persistence_numel = random.chance(50) ? kMax : random.between(0, 400),
          .prefetch_numel = random.chance(25) ? 0 : random.between(1, 2500),
          .max_live_numel = random.chance(50) ? kMax : random.between(0, 4000)};
}

TEST(GatherPool, IsWhatASimulationNeeds) {
  testing::for_each_case(400, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    Simulation simulation{random_units(random), random_limits(random), {}, {}};
    const Units& units = simulation.units;
    const GatherPool pool =
        size_gather_pool(units, forward_and_backward(units.size()), simulation.limits);
    simulation.slots = pool.slot_of_unit;

    std::vector<std::size_t> order(units.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    simulation.keep_small_units();
    simulation.run(order);
    std::reverse(order.begin(), order.end());
    simulation.run(order);

    std::map<std::int64_t, std::int64_t> classes;
    std::int64_t bytes = 0;
    for (const SlotClass& slot_class : pool.classes) {
      ASSERT_EQ(slot_class.slot_bytes % 256, 0);
      ASSERT_TRUE(classes.emplace(slot_class.slot_bytes, slot_class.slots).second);
      bytes += slot_class.slot_bytes * slot_class.slots;
    }
    ASSERT_EQ(classes, simulation.most_of_size);
    ASSERT_EQ(pool.pool_bytes, bytes);
    ASSERT_GE(pool.pool_bytes, simulation.most_bytes);
    ASSERT_LE(pool.pool_bytes, simulation.bytes_without_sharing());

    std::int64_t persistent_bytes = 0;
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      ASSERT_EQ(pool.persistent[unit], simulation.persistent.count(unit) == 1) << unit;
      if (pool.persistent[unit]) {
        persistent_bytes += simulation.slot_bytes(unit);
        ASSERT_EQ(pool.slot_of_unit[unit], 0);
      } else {
        ASSERT_GE(pool.slot_of_unit[unit], simulation.slot_bytes(unit));
      }
    }
    ASSERT_EQ(pool.persistent_bytes, persistent_bytes);
    ASSERT_EQ(pool.persistent_numel, simulation.numel_of(simulation.persistent));
  });
}

TEST(GatherPool, EqualBlocksNeedTheCurrentOneAndThoseAhead) {
  const Units units(10, {.numel = 1000, .bytes = 2048, .never_released = false});
  for (std::int64_t ahead = 0; ahead <= 4; ++ahead) {
    const GatherLimits limits = {.prefetch_numel = ahead * 1000};
    const GatherPool pool = size_gather_pool(units, forward_and_backward(10), limits);
    EXPECT_EQ(pool.classes, (std::vector<SlotClass>{{2048, ahead + 1}}));
    EXPECT_EQ(pool.pool_bytes, 2048 * (ahead + 1));
  }
}

TEST(GatherPool, EveryPhaseCounts) {
  const Units units = {{10, 256, false}, {40, 1024, false}, {10, 256, false}, {40, 1024, false}};
  const GatherLimits limits = {.prefetch_numel = 1};
  const Phase alternating = {0, 1, 2, 3};
  const Phase paired = {0, 2, 1, 3};
  EXPECT_EQ(size_gather_pool(units, {alternating}, limits).classes,
            (std::vector<SlotClass>{{256, 1}, {1024, 1}}));
  EXPECT_EQ(size_gather_pool(units, {alternating, paired, alternating}, limits).classes,
            (std::vector<SlotClass>{{1024, 2}}));  // two small ones are live, or two large ones
}

TEST(GatherPool, SizesAreRoundedIntoTheSameClass) {
  const Units units = {{10, 250, false}, {10, 256, false}, {10, 257, false}};
  const GatherPool pool = size_gather_pool(units, forward_and_backward(3), {.prefetch_numel = 1});
  EXPECT_EQ(pool.classes, (std::vector<SlotClass>{{256, 2}, {512, 1}}));
  EXPECT_EQ(pool.slot_of_unit, (std::vector<std::int64_t>{256, 256, 512}));
}

// An embedding, blocks and a head: the outer two are never live at once.
TEST(GatherPool, UnitsThatAreNeverLiveAtOnceShareASlot) {
  const UnitSize block = {1000, 4096, false};
  const Units units = {{8100, 32768, false}, block, block, block, {8000, 32000, false}};
  const GatherPool ahead = size_gather_pool(units, forward_and_backward(5), {.prefetch_numel = 1});
  EXPECT_EQ(ahead.classes, (std::vector<SlotClass>{{4096, 2}, {32768, 1}}));
  EXPECT_EQ(ahead.slot_of_unit, (std::vector<std::int64_t>{32768, 4096, 4096, 4096, 32768}));
  const GatherPool one_by_one = size_gather_pool(units, forward_and_backward(5), {});
  EXPECT_EQ(one_by_one.classes, (std::vector<SlotClass>{{32768, 1}}));
}

TEST(GatherPool, OfNothing) {
  const GatherPool pool = size_gather_pool({}, forward_and_backward(0), {});
  EXPECT_TRUE(pool.classes.empty());
  EXPECT_EQ(pool.pool_bytes, 0);
}

TEST(GatherPool, RefusesBadArguments) {
  EXPECT_THROW(size_gather_pool({{5, -1, false}}, {{0}}, {}), InvariantError);
  EXPECT_THROW(size_gather_pool({{5, 10, false}}, {{1}}, {}), InvariantError);
  EXPECT_THROW(size_gather_pool({{5, kMax, false}}, {{0}}, {}), InvariantError);
  const Units two(2, {.numel = 5, .bytes = kMax / 256 * 256, .never_released = true});
  EXPECT_THROW(size_gather_pool(two, {{0, 1}}, {}), InvariantError);
}

TEST(CarryRing, RoundsSlotsUp) {
  EXPECT_EQ(size_staging_ring(4, 1000), (Ring{1024, 4, 4096}));
  EXPECT_EQ(size_staging_ring(2, 256), (Ring{256, 2, 512}));
  EXPECT_EQ(size_staging_ring(0, 256).total_bytes, 0);
  EXPECT_THROW(size_staging_ring(-1, 256), InvariantError);
  EXPECT_THROW(size_staging_ring(1, -256), InvariantError);
  EXPECT_THROW(size_staging_ring(3, kMax / 2), InvariantError);
}

}  // namespace
}  // namespace zeroshard
