// Device memory for backends that move host memory only: it is copied through a ring of pinned
// slots, part by part, so that copies down, the inner communicator and copies up overlap.
//
//   auto comm = carry_through_host(make_mpi_communicator({}), {.device = {DeviceKind::cuda, 0}});
//   Handle gathered = comm->all_gather_into({{shard, full}}, "block.3");   // both on the device
//   gathered.wait(compute);                                // what compute does next may read full
//
// The caller's current stream, as it is at the call, comes before the first look at device memory;
// the handle is done when the result is there. Results have the inner backend's bits: sums do not
// depend on how a message is cut. Either end of a pair may be host memory; every rank passes the
// same kinds.
#pragma once

#include <cstdint>
#include <memory>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

struct CarryOptions {
  Device device{DeviceKind::cuda, 0};  // of this rank: all device memory in its calls lies there
  std::int64_t part_bytes = 4 << 20;   // of one rank in one part; equal on all ranks
  int slots = 3;                       // parts under way: one down, one between ranks, one up
};

// Passes host memory straight on, unless a call with device memory is before it. The ring, `slots`
// times `part_bytes` times (ranks + 2), is allocated by the first call that needs it. After a
// failure, the inner communicator's or of a copy, every call fails with that error.
std::unique_ptr<Communicator> carry_through_host(std::unique_ptr<Communicator> host_only,
                                                 const CarryOptions& options = {});

}  // namespace zeroshard
