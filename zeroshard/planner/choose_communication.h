// How gathers and reductions are cut and overlapped where the configuration does not say. It
// changes no bit of the results, only time and memory. The defaults of ds_config.json are made for
// large models on many GPUs: of a small model they make one bucket, and gather all of it ahead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/config/provenance.h"
#include "zeroshard/engine/options.h"

namespace zeroshard {

// Which of them the configuration leaves open.
struct OpenChoices {
  bool overlap = true;
  bool bucket = true;
  bool prefetch = true;
};

OpenChoices open_choices(const config::Provenance& provenance);

// How many threads each rank of a host computes with, and whether that leaves a core idle for each
// of them, on which its communication can run aside. `given`: OMP_NUM_THREADS.
struct RankThreads {
  int threads = 1;
  bool leave_idle_cores = false;
};

RankThreads rank_threads(int usable_cpus, int ranks, std::optional<std::int64_t> given);

struct CommunicationFacts {
  std::int64_t parameters = 0;
  bool communicates_beside_compute =
      false;              // on an accelerator, or on CPU cores that no rank computes on
  bool one_rank = false;  // nothing travels, so there is nothing to choose
};

// What every door calls, the plan included. Says what it chose.
std::vector<std::string> choose_communication(ZeroOptions& zero, const OpenChoices& open,
                                              const CommunicationFacts& facts);

}  // namespace zeroshard
