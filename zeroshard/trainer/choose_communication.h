// How gathers and reductions are cut and overlapped where the configuration does not say. It
// changes no bit of the results, only time and memory. The defaults of ds_config.json are made for
// large models on many GPUs: of a small model they make one bucket, and gather all of it ahead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zeroshard/engine/options.h"

namespace zeroshard {

// Which of them the configuration leaves open.
struct OpenChoices {
  bool overlap = true;
  bool bucket = true;
  bool prefetch = true;
};

struct CommunicationFacts {
  std::int64_t parameters = 0;
  bool runs_aside = false;  // on an accelerator, or on CPU cores that no rank computes on
};

// Says what it chose.
std::vector<std::string> choose_communication(ZeroOptions& zero, const OpenChoices& open,
                                              const CommunicationFacts& facts);

}  // namespace zeroshard
