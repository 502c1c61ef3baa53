// What a model's own computation takes of a rank's device beside the engine's memory: activations,
// logits, and what operators need meanwhile. Whoever knows the model counts it (models/), the
// planner lays it beside the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/base/error.h"

namespace zeroshard {

// A computation whose bytes are beyond counting: no device has such memory, so that it fits into
// none.
class BeyondCounting : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// Where a model computes. Operators differ: a GPU has fused ones.
struct ComputeDevice {
  bool accelerator = true;
  // Products of 16-bit tensors are done in fp32, as on CPUs that have no others.
  bool widens = false;

  bool operator==(const ComputeDevice&) const = default;
};

// What is asked for.
struct ActivationQuery {
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 0;  // 0: the model's
  int width = 2;              // bytes of a parameter's element
  ComputeDevice device = {};
  // Parameters' gradients stay as autograd made them (holds_gradients() in tier_plan.h).
  bool holds_gradients = false;
};

// What a computation costs in time.
struct Work {
  double product_flops = 0;  // of matrix products and attention
  double moved_bytes = 0;    // read and written by everything else
  double operators = 0;      // each takes a while to begin

  void add(const Work& other) {
    product_flops += other.product_flops;
    moved_bytes += other.moved_bytes;
    operators += other.operators;
  }
  bool operator==(const Work&) const = default;
};

// One use of a unit, for one micro-batch of a rank, in bytes.
struct UnitActivations {
  std::size_t unit = 0;       // in the model's layout
  std::int64_t kept = 0;      // from its forward to its backward, its input included if it is kept
  std::int64_t forward = 0;   // at most while it runs forward: input and output included
  std::int64_t backward = 0;  // at most in its backward: what it kept, and gradients
  std::int64_t logits = 0;    // of all of these, what the vocabulary takes
  // A gradient that its backward leaves to the first use of the same parameter: a table that two
  // units share is complete when both are over.
  std::int64_t left = 0;
  Work forward_work = {};
  Work backward_work = {};  // what is computed again included

  bool operator==(const UnitActivations&) const = default;
};

struct ModelActivations {
  std::vector<UnitActivations> uses = {};  // in the order of forward
  std::int64_t batch = 0;                  // what is read: as long as the micro-step lasts
  std::int64_t tables = 0;                 // made by the first forward, and kept for all
};

}  // namespace zeroshard
