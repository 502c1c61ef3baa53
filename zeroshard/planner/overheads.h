// What a process holds beside states and activations: libraries, contexts, scratch memory. None of
// it is ours, so all of it is an estimate.
#pragma once

#include "zeroshard/base/dtype.h"
#include "zeroshard/planner/memory_plan.h"

namespace zeroshard {

struct OverheadFacts {
  bool accelerator = false;
  int ranks = 1;
  int ranks_on_host = 1;
  DType dtype = DType::fp32;
};

// Before a model is made: what libtorch takes by itself. And what comes on top of it until training
// is under way.
struct ProcessOverheads {
  Overheads at_start = {};
  Overheads while_training = {};

  Overheads all() const {
    return {at_start.device_bytes + while_training.device_bytes,
            at_start.host_bytes + while_training.host_bytes};
  }
};

ProcessOverheads process_overheads(const OverheadFacts& facts);

}  // namespace zeroshard
