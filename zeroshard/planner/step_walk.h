// A step walked through in time: what the device computes, what the network sends meanwhile, and
// where one waits for the other. docs/scaling.md has its rules as formulas.
//
// Both are lanes. Collectives go one after the other, in the order in which the engine calls them,
// and none before the device has come to its call. The device waits for a unit's parameters before
// it uses them, for a bucket's buffer before it fills it again, and for all gradients before the
// norm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "zeroshard/planner/gather_plan.h"

namespace zeroshard {

// Seconds of one of each.
struct WalkedUnit {
  double forward = 0;
  double backward = 0;
  double update = 0;
  double gather = 0;           // of its parameters: for each use, or after the update
  double gradient_gather = 0;  // of G
  bool released = false;       // gathered for each use
};

struct WalkedBucket {
  std::vector<std::size_t> units = {};
  double reduce = 0;
};

struct WalkedStep {
  std::vector<WalkedUnit> units = {};
  std::vector<WalkedBucket> buckets = {};  // in the order in which backward completes them
  std::size_t bucket_slots = 0;            // 0: any number may be under way
  std::optional<std::size_t> root_unit = {};
  GatherOrder forward = {};  // none: nothing is gathered for a use
  GatherOrder backward = {};
  std::int64_t micro_steps = 1;
  bool reduces_each = false;  // micro-step; else the last one alone
  // All of G is gathered behind each bucket's reduction, once the next bucket is complete; else
  // behind the norm, as that of the last bucket is.
  bool gathers_behind = false;
  double agreement = 0;  // of the norm
  // At least so long for reasons other than the network (docs/offload.md).
  double least_forward = 0;
  double least_backward = 0;
  double least_first_forward = 0;
  double least_last_backward = 0;
};

// From one update's begin to the next's.
double walk_seconds(const WalkedStep& step);

}  // namespace zeroshard
