// How much a step sends, as arithmetic over placements and layout. The planner prints these numbers
// and tests hold the communicator's ledger to them.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/layout/flat_layout.h"
#include "zeroshard/layout/placement.h"

namespace zeroshard {

// How often a flat group crosses the ranks in one step.
struct Traffic {
  std::int64_t reduces = 0;
  std::int64_t gradient_gathers = 0;  // the second half of an all-reduce
  std::int64_t parameter_gathers = 0;

  std::int64_t gathers() const { return gradient_gathers + parameter_gathers; }

  bool operator==(const Traffic& other) const = default;
};

// What a flat group is to the step.
struct GroupUse {
  bool trainable = true;
  // False for a root unit without a call point and for units under the persistence threshold:
  // their parameters are gathered once after the update and then stay.
  bool released = true;
};

// Follows the placements of a row, for a step of `micro_steps` (a) micro-steps.
Traffic traffic_per_step(const Stage& stage, int micro_steps, const GroupUse& use = {});

// Element types that travel.
struct TrafficDTypes {
  DType parameters = DType::fp32;
  DType reduced = DType::fp32;             // communication_data_type
  DType gathered_gradients = DType::fp32;  // of G, the reduced gradient
};

struct TrafficBytes {
  std::int64_t reduce = 0;
  std::int64_t gather = 0;

  bool operator==(const TrafficBytes& other) const = default;
};

// What each rank sends in one reduce-scatter or one all-gather of a flat group: every shard but its
// own. Exact and the same for all ranks, because shards are equal; 0 with one rank.
std::int64_t bytes_sent_once(const FlatLayout& layout, DType dtype);

// What each rank sends for a flat group in a step.
TrafficBytes bytes_sent(const FlatLayout& layout, const Traffic& traffic,
                        const TrafficDTypes& dtypes);

}  // namespace zeroshard
