// How far gathers may go ahead, as a configuration says it: for the planner and the engine alike,
// so that the pool that is planned is the one that is made.
#pragma once

#include "zeroshard/engine/options.h"
#include "zeroshard/layout/pool.h"

namespace zeroshard {

constexpr GatherLimits gather_limits(const ZeroOptions& zero) {
  return {.persistence_numel = zero.persistence_numel,
          .model_persistence_numel = zero.model_persistence_numel,
          .prefetch_numel = zero.prefetch_numel,
          .max_live_numel = zero.max_live_numel};
}

}  // namespace zeroshard
