#include "zeroshard/layout/pool.h"

#include <algorithm>
#include <map>

#include "zeroshard/base/check.h"
#include "zeroshard/layout/alignment.h"

namespace zeroshard {
namespace {

// Slots by slot size, now or at most.
using SlotCounts = std::map<std::int64_t, std::int64_t>;

void count_phase(const std::vector<std::int64_t>& visit_bytes, const std::vector<std::size_t>& ends,
                 SlotCounts& most) {
  SlotCounts live;
  std::size_t gathered = 0;
  for (std::size_t visit = 0; visit < ends.size(); ++visit) {
    for (; gathered < ends[visit]; ++gathered) {
      const std::int64_t now = ++live[visit_bytes[gathered]];
      std::int64_t& slots = most[visit_bytes[gathered]];
      slots = std::max(slots, now);
    }
    --live[visit_bytes[visit]];
  }
}

void add_persistent(const std::vector<GatherUnit>& units, GatherPool& pool) {
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (!pool.persistent[unit]) continue;
    const std::int64_t bytes = checked_round_up(units[unit].bytes, kBufferAlignmentBytes);
    pool.persistent_numel = checked_add(pool.persistent_numel, units[unit].numel);
    pool.persistent_bytes = checked_add(pool.persistent_bytes, bytes);
  }
}

}  // namespace

GatherPool size_gather_pool(const std::vector<GatherUnit>& units, const std::vector<Phase>& phases,
                            const GatherLimits& limits) {
  GatherPool pool;
  pool.persistent = persistent_units(units, limits);
  add_persistent(units, pool);
  SlotCounts most;
  for (const Phase& phase : phases) {
    const Phase visits = gathered_visits(phase, pool.persistent);
    std::vector<std::int64_t> visit_bytes;
    for (const std::size_t unit : visits) {
      visit_bytes.push_back(checked_round_up(units[unit].bytes, kBufferAlignmentBytes));
    }
    count_phase(visit_bytes, prefetch_ends(units, visits, limits, pool.persistent_numel), most);
  }
  for (const auto& [slot_bytes, slots] : most) {
    pool.classes.push_back({slot_bytes, slots});
    pool.pool_bytes = checked_add(pool.pool_bytes, checked_mul(slot_bytes, slots));
  }
  return pool;
}

Ring size_staging_ring(int slots, std::int64_t slot_bytes) {
  ZS_CHECK_GE(slots, 0, "slots of a staging ring");
  const std::int64_t rounded = checked_round_up(slot_bytes, kBufferAlignmentBytes);
  return {rounded, slots, checked_mul(rounded, slots)};
}

std::int64_t offloaded_numel(std::int64_t numel, double ratio) {
  ZS_CHECK_GE(numel, 0);
  ZS_CHECK_GE(ratio, 0.0);
  ZS_CHECK_LE(ratio, 1.0);
  if (ratio == 1.0) return numel;  // exact where a double could not count the elements
  const auto blocks = static_cast<std::int64_t>(static_cast<double>(numel / kAlignment) * ratio);
  return std::min(numel, checked_mul(blocks, kAlignment));
}

}  // namespace zeroshard
