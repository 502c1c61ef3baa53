// Which units' gradients are reduced together, in which order, and the buffers they are packed
// into. Planner and engine both call this, so that they cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/layout/pool.h"

namespace zeroshard {

// The units of one grouped reduction, as indices into the model's list.
struct UnitBucket {
  std::vector<std::size_t> units = {};
  std::int64_t numel = 0;

  bool operator==(const UnitBucket& other) const = default;
};

struct ReductionPlan {
  std::vector<UnitBucket> buckets = {};  // in the order in which backward completes them
  // Buffers that buckets take in turn: one, or two where one is reduced while another fills; never
  // more than there are buckets.
  Ring ring = {};
  // The root unit's gradients come from all over backward and are complete only at its end. A
  // buffer of its own, so that it does not keep one of the ring's from everybody else.
  std::int64_t root_slot_bytes = 0;
  std::int64_t total_bytes = 0;
};

struct ReductionOptions {
  std::int64_t bucket_numel = 0;
  DType dtype = DType::fp32;  // that travels
  bool overlap = false;
  std::optional<std::size_t> root_unit = {};
};

// `unit_numels`: each unit's trainable padded numel, in forward order. Buckets go from the last
// unit to the first, the root unit by itself at the end.
ReductionPlan plan_reductions(const std::vector<std::int64_t>& unit_numels,
                              const ReductionOptions& options);

}  // namespace zeroshard
