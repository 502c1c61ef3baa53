// The collectives of a step, one by one: which there are, what each rank sends in them, and how
// often. Made of the plans that the engine carries out, so that its ledger agrees with them.
//
//   const StepMessages messages = step_messages(model, footprint_options(config, micro_steps));
//   messages.reduces() + messages.gathers();
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/planner/footprint.h"
#include "zeroshard/planner/gather_plan.h"

namespace zeroshard {

// Bytes are those of one of them, as each rank sends them.
struct UnitMessages {
  bool released = false;  // gathered for each use; else once, after the update
  std::int64_t parameter_bytes = 0;
  std::int64_t parameter_gathers = 0;
  std::int64_t gradient_bytes = 0;
  std::int64_t gradient_gathers = 0;
};

struct BucketMessages {
  std::vector<std::size_t> units = {};
  std::int64_t bytes = 0;
  std::int64_t reduces = 0;
};

struct StepMessages {
  std::vector<UnitMessages> units = {};
  std::vector<BucketMessages> buckets = {};  // in the order in which backward completes them
  // So many buckets may be filled or reduced at a time; 0: they are reduced where gradients lie.
  std::size_t bucket_slots = 0;
  GatherOrder forward = {};
  GatherOrder backward = {};

  std::int64_t reduces() const;
  std::int64_t gathers() const;
  // With what ranks agree on before the update: one all-gather of the norm.
  std::int64_t collectives() const;
};

// With one rank there are none.
StepMessages step_messages(const ModelLayout& model, const FootprintOptions& options);

}  // namespace zeroshard
