// What a run will take of memory, decided before anything is allocated: what the configuration
// leaves to "auto", what is refused, and what to change where memory is not enough. Free of torch.
#pragma once

#include <string>
#include <vector>

#include "zeroshard/config/read.h"
#include "zeroshard/models/options.h"
#include "zeroshard/planner/memory_plan.h"
#include "zeroshard/planner/overheads.h"
#include "zeroshard/planner/variants.h"
#include "zeroshard/trainer/run_settings.h"

namespace zeroshard {

// Stage, offload and micro-batch where the file says "auto": by the memory of a rank, if that is
// known. `batch`: what it is where the micro-batch is given. Answers with a sentence for each
// choice. Throws ConfigError where nothing fits.
std::vector<std::string> settle_auto(config::ReadResult& read, const ModelOptions& model,
                                     const config::BatchSizes& batch, const RunFacts& facts);

struct RunPlan {
  MemoryPlan memory;
  ProcessOverheads overheads;
};

// Throws ConfigError where a budget of the configuration is too small.
void refuse_small_budgets(const RunSettings& run, const RunFacts& facts);

// Of the run as it is decided; `save`: what checkpoints take.
RunPlan plan_of(const RunSettings& run, const RunFacts& facts, const SaveMemory& save = {});
bool fits_memory(const RunSettings& run, const RunPlan& plan, const RunFacts& facts);

// Throws ConfigError where the run does not fit into memory that was given (--device-memory,
// --host-memory), and StorageError where what the engine owns is more than the device has, or than
// the host where the CPU is the device: the kernel ends who takes more of it. Answers with a
// warning where only the estimate is.
std::string judge_memory(const RunSettings& run, const RunPlan& plan, const RunFacts& facts);

// What would fit into `limits`, in words: "a micro-batch of 4, or stage 3 + offload_optimizer".
// Empty where nothing would.
std::string what_fits(const RunSettings& run, const RunFacts& facts, const MemoryLimits& limits);

}  // namespace zeroshard
