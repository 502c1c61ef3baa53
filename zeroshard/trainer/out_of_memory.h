// Torch's word for memory that it did not get, as a sentence of ours.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "zeroshard/base/error.h"
#include "zeroshard/tier/state_memory.h"
#include "zeroshard/trainer/run_settings.h"

namespace zeroshard {

// How much was asked for in vain ("12.00 GiB"; "more" where that is not said), or nothing where the
// exception is about something else.
std::optional<std::string> refused_memory(const std::exception_ptr& error);

// States are planned and allocated before the first step; what is not there then is room for
// activations. `where`: "step 3, forward, unit block.7". `had`: of the device, at most, libraries
// aside. The remedy is the planner's: what fits into what the device has turned out to have.
StorageError out_of_memory(const std::string& refused, const std::string& where,
                           const RunSettings& run, const RunFacts& facts, std::int64_t had);

// The same of parameters and states that were refused before the first step.
StorageError out_of_memory_at_start(const std::string& refused, const RunSettings& run,
                                    const RunFacts& facts, std::int64_t had);
StorageError with_plan(const StateMemoryError& error, const RunSettings& run,
                       const RunFacts& facts);

// One row per category: what ZeroShard itself holds now.
std::string held_table(const MemoryLedger& ledger);

}  // namespace zeroshard
