// Thread ranks whose communicators stage device memory.
#pragma once

#include <functional>

#include "zeroshard/comm/ledger.h"
#include "zeroshard/comm/staged.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {

// Each rank's body gets the staging communicator, and a ledger of what went through the inner one:
// a call per part.
using StagedBody = std::function<void(Communicator&, TrafficLedger&)>;

inline void run_staged_ranks(int ranks, const StagingOptions& options, const StagedBody& body) {
  run_ranks(ranks, {}, [&](Communicator& comm) {
    TrafficLedger inner;
    const auto staged = stage_device_memory(count_traffic(comm, inner), options);
    body(*staged, inner);
  });
}

}  // namespace zeroshard
