// The contract over MPI with device memory: exit code 77 without an accelerator. All ranks use one,
// by way of the host; with ZEROSHARD_NCCL=1 they go by NCCL where connect_devices() allows it, with
// its own sums and with ours.
#include <string_view>

#include <fmt/format.h>

#include "tests/comm/contract.h"
#include "zeroshard/base/env.h"
#include "zeroshard/comm/join.h"
#include "zeroshard/comm/nccl_library.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/backend.h"

int main(int argc, char** argv) {
  return zeroshard::rank_main([&] {
    constexpr zeroshard::Device kFirst{zeroshard::DeviceKind::cuda, 0};
    if (zeroshard::load_accelerators() == 0) {
      fmt::print("needs an accelerator: {}\n", zeroshard::missing_reason(kFirst.kind));
      return 77;
    }
    // Otherwise this would be the way by the host once more.
    constexpr int kSharesGpus = 23000;
    if (zeroshard::env_integer(zeroshard::EnvVar::kNccl) &&
        zeroshard::nccl_version() < kSharesGpus) {
      fmt::print("needs an NCCL that lets ranks share a GPU (2.30): {}\n",
                 zeroshard::missing_nccl());
      return 77;
    }
    const bool own_sums = argc > 1 && std::string_view(argv[1]) == "nccl_sums";
    const zeroshard::CommOptions options{.timeout = std::chrono::seconds(20),
                                         .deterministic = !own_sums};
    const auto comm = zeroshard::join_ranks(options, kFirst);
    using zeroshard::contract::Sums;
    zeroshard::contract::everything(*comm, (2 << 20) / comm->world_size(), kFirst,
                                    own_sums ? Sums::in_any_order : Sums::in_rank_order);
    zeroshard::contract::everything(*comm, 1 << 10);
    fmt::print("contract kept by rank {} of {}\n", comm->rank(), comm->world_size());
    return 0;
  });
}
