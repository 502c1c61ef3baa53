// Sizes of the memory that is allocated once and reused: the gather pool and rings of buffers.
// Planner and engine both call these, so that they cannot disagree. The rings of buckets are in
// reduction_plan.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/layout/prefetch.h"

namespace zeroshard {

// Buffers of one size. A unit always takes a slot of its own class, so the pool cannot fragment.
struct SlotClass {
  std::int64_t slot_bytes = 0;
  std::int64_t slots = 0;

  bool operator==(const SlotClass& other) const = default;
};

// Memory for full units at stage 3.
struct GatherPool {
  std::vector<SlotClass> classes;          // by increasing slot size
  std::int64_t pool_bytes = 0;             // over all classes
  std::vector<std::int64_t> slot_of_unit;  // in bytes: the class it takes; 0 if persistent

  // Units that are never released have a buffer each, outside the pool.
  std::vector<bool> persistent;
  std::int64_t persistent_numel = 0;
  std::int64_t persistent_bytes = 0;
};

// A class has as many slots as its units are live at once at any visit of any phase. Units of equal
// size are of one class; a size joins the next larger class where that makes the pool smaller: an
// embedding and a head, nearly equal and never live at once, share one slot.
GatherPool size_gather_pool(const std::vector<UnitSize>& units, const std::vector<Phase>& phases,
                            const GatherLimits& limits);

// Equal buffers used in turn.
struct Ring {
  std::int64_t slot_bytes = 0;
  int slots = 0;
  std::int64_t total_bytes = 0;

  bool operator==(const Ring& other) const = default;
};

// Buffers that states pass through one after another.
Ring size_staging_ring(int slots, std::int64_t slot_bytes);

}  // namespace zeroshard
