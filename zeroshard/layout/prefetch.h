// Which units are gathered ahead at stage 3, and which are never released. The engine gathers by
// these tables and pool.h sizes memory by them, so the pool cannot be too small for the schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace zeroshard {

struct UnitSize {
  std::int64_t numel = 0;       // without padding: what the limits below count
  std::int64_t bytes = 0;       // of the gathered buffer: what the pool counts
  bool never_released = false;  // a root unit without a call point
};

// All in elements. The config's defaults are in the config's options, not here.
struct GatherLimits {
  std::int64_t persistence_numel = 0;  // whole units up to this size are never released
  std::int64_t model_persistence_numel = std::numeric_limits<std::int64_t>::max();  // their sum
  std::int64_t prefetch_numel = 0;                                                  // 0: none ahead
  std::int64_t max_live_numel = std::numeric_limits<std::int64_t>::max();
};

// For each unit, whether it is persistent: `never_released`, or small enough while the sum of the
// small ones, in this order, stays within the model's limit.
std::vector<bool> persistent_units(const std::vector<UnitSize>& units, const GatherLimits& limits);

// A phase is the order in which a forward or a backward visits units, as indices.
using Phase = std::vector<std::size_t>;

// Forward in the order of the list, then backward in reverse.
std::vector<Phase> forward_and_backward(std::size_t unit_count);

// The visits of a phase that need a gather: those of persistent units left out.
Phase gathered_visits(const Phase& phase, const std::vector<bool>& persistent);

// For each visit v, the end e of the visits [v, e) whose units may be live while v is current: v
// itself, always, and those gathered ahead. Never decreases, so what was gathered ahead stays live
// until it is used. Going ahead stops
//   - once `prefetch_numel` is reached, the last unit whole: units are larger than usual limits,
//     and stopping before the first would switch prefetch off without a word;
//   - before `max_live_numel` would be passed, counting persistent units and the current one;
//   - at a unit that is live already: it is released first, then gathered again.
std::vector<std::size_t> prefetch_ends(const std::vector<UnitSize>& units, const Phase& visits,
                                       const GatherLimits& limits, std::int64_t persistent_numel);

}  // namespace zeroshard
