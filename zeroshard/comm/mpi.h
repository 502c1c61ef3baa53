// Ranks that are processes of one MPI job.
//
//   auto comm = make_mpi_communicator({.timeout = std::chrono::minutes(5)});
//
// One thread of the process does all MPI, from MPI_Init_thread to MPI_Finalize, and sleeps while
// there is nothing to do. After a failure (ranks out of step, a timeout, an error of MPI's) every
// operation fails at once; it is the program's part to end, MPI_Abort is never called from here.
//
// CPU memory only: device memory goes through carry_through_host() (carry_through_host.h), which
// join_ranks() puts around it. Payloads of any size: they are cut into parts below MPI's limit of 2
// GiB.
//
// A control channel (control.h) goes with it: a rank that dies is named at once, a rank that is
// waited for in vain with what it was last seen doing.
#pragma once

#include <cstdint>
#include <memory>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/options.h"

namespace zeroshard {

struct MpiTuning {
  // The largest single message; 4 to 2^31 - 1. Parts of 256 KiB stay in the cache between their
  // arrival and their sum. Tests cut finely with a small one.
  std::int64_t chunk_bytes = 256 << 10;
};

// The answer says whether this build has the backend.
bool mpi_available();

// The rank's end of all processes of the job. One at a time per process; every rank makes and
// destroys its own in step with the others. Throws ConfigError where the build has no MPI.
std::unique_ptr<Communicator> make_mpi_communicator(const CommOptions& options,
                                                    const MpiTuning& tuning = {});

}  // namespace zeroshard
