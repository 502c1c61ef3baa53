// How ranks that compute on accelerators talk: by NCCL where each has a GPU of its own, else
// through pinned host memory.
//
//   auto comm = connect_devices(make_mpi_communicator(options), device, options);
//
// All ranks come to the same choice, since they make it from the same facts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/nccl.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

// What a rank knows about itself.
struct RankDevice {
  std::string identity = {};  // of its GPU: equal where ranks share one
  int nccl_version = 0;       // as in 2.30.7: 23007; 0 where there is none
  bool wants_nccl = false;    // ZEROSHARD_NCCL
  bool may_share = false;     // NCCL_MULTI_RANK_GPU_ENABLE
};

struct TransportChoice {
  bool nccl = false;
  std::string why_not = {};  // a sentence for who asked for NCCL and does not get it
};

TransportChoice choose_transport(const std::vector<RankDevice>& ranks);

// `hosts` connects the same ranks. Collective; returns a communicator that moves `device`'s memory.
std::unique_ptr<Communicator> connect_devices(std::unique_ptr<Communicator> hosts, Device device,
                                              const NcclOptions& options);

}  // namespace zeroshard
