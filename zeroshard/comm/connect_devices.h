// How ranks that compute on accelerators talk: by NCCL where each has a GPU of its own and a trial
// of it goes well, else through pinned host memory.
//
//   auto comm = connect_devices(make_mpi_communicator(options), device, options);
//
// All ranks come to the same choice, since they make it from the same facts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/nccl.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

// NCCL is not taken by itself while it has been run over a library that takes its place, and never
// on GPUs: whoever has run `ctest -R nccl_contract` on one sets this to true.
inline constexpr bool kNcclHasRunOnGpus = false;

// ZEROSHARD_NCCL: 0, unset, and 1.
enum class NcclWish { never, automatic, insist };

// This process's. Throws ConfigError for another word. It is here whole, because a plan asks it,
// too, and links no backend.
inline NcclWish nccl_wish() {
  const auto text = env_text(EnvVar::kNccl);
  if (!text) return NcclWish::automatic;
  if (text == "0") return NcclWish::never;
  if (text == "1") return NcclWish::insist;
  throw ConfigError({.what = "ZEROSHARD_NCCL is neither 0 nor 1",
                     .value = *text,
                     .remedy = "1 insists on NCCL, 0 goes through host memory, unset chooses"});
}

// What a rank knows about itself.
struct RankDevice {
  std::string identity = {};  // of its GPU: equal where ranks share one
  int nccl_version = 0;       // as in 2.30.7: 23007; 0 where there is none
  NcclWish wish = NcclWish::automatic;
  bool may_share = false;  // NCCL_MULTI_RANK_GPU_ENABLE
};

struct TransportChoice {
  bool nccl = false;
  bool insists = false;      // on NCCL: where it cannot be is an error
  std::string why_not = {};  // said by rank 0; "" where somebody wants it so
};

TransportChoice choose_transport(const std::vector<RankDevice>& ranks,
                                 bool may_choose_nccl = kNcclHasRunOnGpus);

// `hosts` connects the same ranks. Collective; returns a communicator that moves `device`'s memory.
// Throws ConfigError on rank 0 and PeerError on the others where NCCL is insisted on in vain.
std::unique_ptr<Communicator> connect_devices(std::unique_ptr<Communicator> hosts, Device device,
                                              const NcclOptions& options,
                                              bool may_choose_nccl = kNcclHasRunOnGpus);

}  // namespace zeroshard
