// This file takes the place of mpi*.cpp where there is no MPI to build with.
#include "zeroshard/base/error.h"
#include "zeroshard/comm/mpi.h"

namespace zeroshard {

bool mpi_available() { return false; }

std::unique_ptr<Communicator> make_mpi_communicator(const CommOptions&, const MpiTuning&) {
  throw ConfigError({.what = "this build has no MPI",
                     .remedy = "install libopenmpi-dev and configure again, or use one rank"});
}

}  // namespace zeroshard
