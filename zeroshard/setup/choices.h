// What a run chooses where its configuration does not say: the precision, the threads, and how
// gathers and reductions are cut and overlapped. The last changes no bit of the results, only time
// and memory: the defaults of ds_config.json are made for large models on many GPUs, and of a small
// model they make one bucket, and gather all of it ahead. Every door calls these, the plan
// included.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/config/config.h"
#include "zeroshard/config/provenance.h"
#include "zeroshard/engine/options.h"
#include "zeroshard/planner/collective_time.h"

namespace zeroshard {

// bf16 on an accelerator, fp32 on CPUs. Says what it chose; nothing where the file says it.
std::optional<std::string> choose_precision(PrecisionOptions& precision,
                                            const config::Provenance& provenance,
                                            bool has_accelerator);

// How many threads each rank of a host computes with, and whether that leaves a core idle for each
// of them, on which its communication can run aside. `given`: OMP_NUM_THREADS.
struct RankThreads {
  int threads = 1;
  bool leave_idle_cores = false;
};

RankThreads rank_threads(int usable_cpus, int ranks, std::optional<std::int64_t> given);

// Which choices about communication the configuration leaves open.
struct OpenChoices {
  bool overlap = true;
  bool bucket = true;
  bool prefetch = true;
  bool live = true;  // how much may be gathered at a time
};

OpenChoices open_choices(const config::Provenance& provenance);

struct CommunicationFacts {
  std::int64_t parameters = 0;
  // The same on all ranks, as every other fact here: they must come to the same sizes.
  Topology topology = {};
  bool on_accelerator = false;
  // On an accelerator, or on CPU cores that no rank computes on.
  bool communicates_beside_compute = false;
  bool one_rank = false;  // nothing travels, so there is nothing to choose
};

// Says what it chose. The sizes are those of planner/chosen_sizes.h, for gradients that travel as
// `travels`.
std::vector<std::string> choose_communication(ZeroOptions& zero, const OpenChoices& open,
                                              const CommunicationFacts& facts,
                                              DType travels = DType::fp32);

}  // namespace zeroshard
