// The contract over MPI with device memory, all ranks on one accelerator: exit code 77 without one.
#include <fmt/format.h>

#include "tests/comm/contract.h"
#include "zeroshard/comm/join.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/backend.h"

int main() {
  return zeroshard::rank_main([] {
    constexpr zeroshard::Device kFirst{zeroshard::DeviceKind::cuda, 0};
    if (zeroshard::load_accelerators() == 0) {
      fmt::print("needs an accelerator: {}\n", zeroshard::missing_reason(kFirst.kind));
      return 77;
    }
    const auto comm = zeroshard::join_ranks({.timeout = std::chrono::seconds(20)}, kFirst);
    zeroshard::contract::everything(*comm, (2 << 20) / comm->world_size(), kFirst);
    zeroshard::contract::everything(*comm, 1 << 10);
    fmt::print("contract kept by rank {} of {}\n", comm->rank(), comm->world_size());
    return 0;
  });
}
