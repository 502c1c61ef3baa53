#include "zeroshard/layout/pool.h"

#include <algorithm>
#include <map>
#include <optional>

#include "zeroshard/base/check.h"
#include "zeroshard/layout/alignment.h"

namespace zeroshard {
namespace {

// Slots by slot size, now or at most.
using SlotCounts = std::map<std::int64_t, std::int64_t>;
using SlotOfSize = std::map<std::int64_t, std::int64_t>;

// One phase: the size of each unit it gathers, and how far ahead it goes.
struct SizedPhase {
  std::vector<std::int64_t> visit_bytes;
  std::vector<std::size_t> ends;
};

void count_phase(const SizedPhase& phase, const SlotOfSize& slot_of, SlotCounts& most) {
  SlotCounts live;
  std::size_t gathered = 0;
  for (std::size_t visit = 0; visit < phase.ends.size(); ++visit) {
    for (; gathered < phase.ends[visit]; ++gathered) {
      const std::int64_t slot = slot_of.at(phase.visit_bytes[gathered]);
      most[slot] = std::max(most[slot], ++live[slot]);
    }
    --live[slot_of.at(phase.visit_bytes[visit])];
  }
}

SlotCounts count_slots(const std::vector<SizedPhase>& phases, const SlotOfSize& slot_of) {
  SlotCounts most;
  for (const SizedPhase& phase : phases) count_phase(phase, slot_of, most);
  return most;
}

std::int64_t bytes_of(const SlotCounts& counts) {
  std::int64_t sum = 0;
  for (const auto& [slot_bytes, slots] : counts) {
    sum = checked_add(sum, checked_mul(slot_bytes, slots));
  }
  return sum;
}

// From the largest size down, so that a class has its final size when a smaller one may join it.
SlotOfSize choose_classes(const std::vector<SizedPhase>& phases) {
  SlotOfSize slot_of;
  for (const SizedPhase& phase : phases) {
    for (const std::int64_t bytes : phase.visit_bytes) slot_of[bytes] = bytes;
  }
  std::int64_t pool_bytes = bytes_of(count_slots(phases, slot_of));
  std::optional<std::int64_t> larger_slot;
  for (auto size = slot_of.rbegin(); size != slot_of.rend(); ++size) {
    size->second = larger_slot.value_or(size->first);
    const std::int64_t joined = bytes_of(count_slots(phases, slot_of));
    if (joined >= pool_bytes) size->second = size->first;
    pool_bytes = std::min(pool_bytes, joined);
    larger_slot = size->second;
  }
  return slot_of;
}

std::int64_t size_of(const UnitSize& unit) {
  return checked_round_up(unit.bytes, kBufferAlignmentBytes);
}

void add_persistent(const std::vector<UnitSize>& units, GatherPool& pool) {
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (!pool.persistent[unit]) continue;
    const std::int64_t bytes = size_of(units[unit]);
    pool.persistent_numel = checked_add(pool.persistent_numel, units[unit].numel);
    pool.persistent_bytes = checked_add(pool.persistent_bytes, bytes);
  }
}

}  // namespace

GatherPool size_gather_pool(const std::vector<UnitSize>& units, const std::vector<Phase>& phases,
                            const GatherLimits& limits) {
  GatherPool pool;
  pool.persistent = persistent_units(units, limits);
  add_persistent(units, pool);
  std::vector<SizedPhase> sized;
  for (const Phase& phase : phases) {
    const Phase visits = gathered_visits(phase, pool.persistent);
    sized.push_back({{}, prefetch_ends(units, visits, limits, pool.persistent_numel)});
    for (const std::size_t unit : visits) sized.back().visit_bytes.push_back(size_of(units[unit]));
  }
  const SlotOfSize slot_of = choose_classes(sized);
  const SlotCounts counts = count_slots(sized, slot_of);
  for (const auto& [slot_bytes, slots] : counts) pool.classes.push_back({slot_bytes, slots});
  pool.pool_bytes = bytes_of(counts);
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const auto found = slot_of.find(size_of(units[unit]));
    const bool gathered = !pool.persistent[unit] && found != slot_of.end();
    pool.slot_of_unit.push_back(gathered ? found->second : 0);
  }
  return pool;
}

Ring size_staging_ring(int slots, std::int64_t slot_bytes) {
  ZS_CHECK_GE(slots, 0, "slots of a staging ring");
  const std::int64_t rounded = checked_round_up(slot_bytes, kBufferAlignmentBytes);
  return {rounded, slots, checked_mul(rounded, slots)};
}

}  // namespace zeroshard
