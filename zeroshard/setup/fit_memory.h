// Before states are allocated: budgets decide which of them lie on the host, and every host must
// have memory for what its ranks put there.
#pragma once

#include <cstdint>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/layout/tier_plan.h"
#include "zeroshard/planner/footprint.h"

namespace zeroshard {

// Collective. `held_on_host`: what of the plan's host tier the rank has allocated already. Throws
// ConfigError or StorageError on one rank, and a PeerError on the others.
FittedMemory fit_memory(const ModelLayout& model, const FootprintOptions& options,
                        std::int64_t held_on_host, Communicator& comm);

// Whether every host has twice as much free memory as its ranks take with so many bytes each: what
// they will compute with is in no plan. The same answer on all ranks. Collective.
bool has_ample_room(std::int64_t bytes_per_rank, Communicator& comm);

}  // namespace zeroshard
