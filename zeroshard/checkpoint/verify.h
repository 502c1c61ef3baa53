// Whether every byte of a checkpoint is the one that was written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "zeroshard/checkpoint/state_files.h"

namespace zeroshard {

struct DamagedPlace {
  std::string file;
  std::string what;    // "is missing", "has 17 bytes, and 4096 were written", "bytes 0 to 4096 ..."
  std::string states;  // what lies there: "exp_avg of h.0.weight, and 2 more"
};

struct Verified {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;      // that were read and are right
  std::uint64_t unchecked = 0;  // bytes of files that have no checksums
  std::vector<DamagedPlace> damaged = {};
};

// Reads all files once, holding one chunk. What is wrong is in the answer; only what keeps the disk
// from being read at all is thrown. `see_progress` hears the bytes so far.
Verified verify(const StateFiles& files,
                const std::function<void(std::uint64_t bytes)>& see_progress = {});

}  // namespace zeroshard
