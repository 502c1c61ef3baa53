// Thread ranks whose communicators carry device memory through the host.
#pragma once

#include <functional>

#include "zeroshard/comm/carry_through_host.h"
#include "zeroshard/comm/ledger.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {

// Each rank's body gets the carrying communicator, and a ledger of what went through the inner one:
// a call per part.
using CarryBody = std::function<void(Communicator&, TrafficLedger&)>;

inline void run_carrying_ranks(int ranks, const CarryOptions& options, const CarryBody& body) {
  run_ranks(ranks, {}, [&](Communicator& comm) {
    TrafficLedger inner;
    const auto carrying = carry_through_host(count_traffic(comm, inner), options);
    body(*carrying, inner);
  });
}

}  // namespace zeroshard
