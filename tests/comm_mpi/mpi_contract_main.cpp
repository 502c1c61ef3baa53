// The contract over MPI: mpirun -n N mpi_contract CHUNK_BYTES LARGE_COUNT [...more such pairs]
// One communicator after another, each with its own size of messages. Or, for 2 ranks with 5 GiB
// of memory each: mpi_contract past_2gib
#include <cstdlib>
#include <exception>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "tests/comm/contract.h"
#include "zeroshard/comm/mpi.h"

namespace zeroshard {
namespace {

void run(std::int64_t chunk_bytes, std::int64_t large_count) {
  const auto comm =
      make_mpi_communicator({.timeout = std::chrono::seconds(20)}, {.chunk_bytes = chunk_bytes});
  contract::everything(*comm, large_count / comm->world_size());
  if (comm->rank() == 0) {
    fmt::print("contract kept by {} ranks, messages of up to {} bytes\n", comm->world_size(),
               chunk_bytes);
  }
}

// The largest messages that MPI can take, and the usual ones.
void run_past_2gib() {
  constexpr std::int64_t kCount = (std::int64_t{1} << 29) + 1001;
  for (const std::int64_t chunk_bytes :
       {MpiTuning{}.chunk_bytes, std::int64_t{std::numeric_limits<int>::max()}}) {
    const auto comm = make_mpi_communicator({}, {.chunk_bytes = chunk_bytes});
    contract::all_gather_in_place(*comm, kCount);
  }
  const auto comm = make_mpi_communicator({});
  contract::reduce_scatter(*comm, kCount / 2, DType::fp32, DType::fp32);
}

}  // namespace
}  // namespace zeroshard

int main(int argc, char** argv) {
  try {
    if (argc == 2 && argv[1] == std::string_view("past_2gib")) {
      zeroshard::run_past_2gib();
      return 0;
    }
    for (int i = 1; i + 1 < argc; i += 2) {
      zeroshard::run(std::atoll(argv[i]), std::atoll(argv[i + 1]));
    }
    return argc > 2 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
