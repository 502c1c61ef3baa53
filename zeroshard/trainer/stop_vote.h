// A signal reaches the ranks at different moments, and clocks differ. Ranks agree before they stop,
// so that all of them stop at the same place.
#pragma once

#include <chrono>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/monitor/interrupts.h"

namespace zeroshard {

// What is under way may take so long after the first signal, then it is abandoned.
inline constexpr std::chrono::seconds kStopPatience{10};

struct StopVote {
  int signal = 0;       // SIGINT or SIGTERM that some rank was sent, or 0
  bool enough = false;  // some rank had enough
};

// Collective. `enough`: this rank does not want to go on, whatever its reason.
StopVote vote_to_stop(Communicator& comm, const Interrupts& interrupts, bool enough = false);

}  // namespace zeroshard
