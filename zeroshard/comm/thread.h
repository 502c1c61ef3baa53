// Ranks that are threads of one process: for tests, and for TSan to see everything at once.
//
//   run_ranks(4, {}, [](Communicator& comm) { ... });  // the body of each rank
#pragma once

#include <functional>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/options.h"

namespace zeroshard {

// Runs `body` once per rank, each on its own thread, and returns when all have ended. Where bodies
// throw, the others' operations fail, and the exception of the rank that failed first is rethrown.
void run_ranks(int world_size, const CommOptions& options,
               const std::function<void(Communicator&)>& body);

}  // namespace zeroshard
