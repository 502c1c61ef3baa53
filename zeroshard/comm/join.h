// The communicator that the way this process was started asks for.
//
//   int main() {
//     return zeroshard::rank_main([] {
//       const auto comm = zeroshard::join_ranks({});
//       ... train ...
//       return 0;
//     });
//   }
//
// and then `zeroshard run --ranks 4 ./program`, or mpirun, or srun --mpi=pmix; alone it is one
// rank.
#pragma once

#include <functional>
#include <memory>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/options.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

// One rank: `single`. Under mpirun and srun: `mpi`; where `device`, which this rank computes on, is
// an accelerator, its memory goes as connect_devices() says. Under torchrun: ConfigError,
// until the Python package joins its groups.
std::unique_ptr<Communicator> join_ranks(const CommOptions& options, Device device = kCpu);

// The body of main() on a rank: prints an error once, on the rank that has it, and returns the exit
// code that fits. Echoes of other ranks' errors (PeerError) end the program without a word.
int rank_main(const std::function<int()>& body);

}  // namespace zeroshard
