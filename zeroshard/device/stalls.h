// For tests of races: while a RandomStalls lives, work of side streams, copies between tiers and
// collectives begin late, at random. Whatever is ordered by waiting gives the same bits; whatever
// is ordered by luck does not.
//
//   const RandomStalls stalls({.seed = 7});
//   train(1000);   // and compare with a run without
#pragma once

#include <chrono>
#include <cstdint>

#include "zeroshard/device/stream.h"

namespace zeroshard {

struct StallOptions {
  std::uint64_t seed = 1;
  int one_in = 4;                          // of the places that may stall, so many do
  std::chrono::microseconds at_most{500};  // of each
};

// One at a time in a process; others that are made meanwhile change its options.
class RandomStalls {
 public:
  explicit RandomStalls(const StallOptions& options);
  ~RandomStalls();
  RandomStalls(const RandomStalls&) = delete;
  RandomStalls& operator=(const RandomStalls&) = delete;
};

// How many stalls there were so far, so that a test can see that it tests something.
std::int64_t stalls_so_far();

// Holds the calling thread up. Next to nothing while no RandomStalls lives.
void stall_here();
// Holds up what the stream is given next: an accelerator's gets work that takes a while. Every copy
// between an accelerator and the host calls it (copy_bytes); a side stream of the CPU stalls by
// itself, before each piece of work.
void stall(const Stream& stream);

}  // namespace zeroshard
