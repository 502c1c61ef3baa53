// Bytes of a rank, planned and held, as a table for people.
#pragma once

#include <string>

#include "zeroshard/planner/footprint.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

// "parameters 1.2 MiB, gradients ..., in all ...", before anything is allocated; what lies on the
// host is told apart.
std::string planned_line(const Footprint& plan);

// One row per category: planned, and the most that was held. A table for each tier that is used.
std::string planned_and_measured(const Footprint& plan, const MemoryLedger& ledger);

}  // namespace zeroshard
