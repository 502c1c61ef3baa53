// Ranks with a GPU each: operations run on the devices' streams, by NCCL, and the host waits for
// none of them.
//
//   auto comm = make_nccl_communicator(make_mpi_communicator({}), {DeviceKind::cuda, 0}, {});
//   Handle gathered = comm->all_gather_into({{shard, full}}, "block.3");
//   gathered.wait(compute);   // blocks until all ranks have called it; the stream waits for the
//   rest
//
// `hosts` connects the same ranks. What NCCL need not do goes through it: operations between host
// memory, those that end in host memory (sums of offloaded gradients), and all-reduces, which are
// of a few numbers. Everything else stays on the devices.
//
// Sums are NCCL's: in the dtype of the input and in the order of its ring, so within the bound of
// docs/kernels.md and not bit for bit those of the other backends. Where `comm.deterministic`,
// addends go to their owners as they are, and are summed there in fp32 and in rank order: bit for
// bit. A factor that is a power of two multiplies addends before the sum, so that sums of fp16
// overflow where the mean does; what remains of it multiplies the sum.
//
// All lanes (this communicator and its siblings) share one order of launches (launch_order.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/options.h"
#include "zeroshard/device/device.h"
#include "zeroshard/numeric/arrays.h"

namespace zeroshard {

struct NcclLibrary;

struct NcclOptions {
  CommOptions comm = {};
  // So often ranks look whether all are still there, from the first operation on.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(2);
  // A trial's (nccl_trial.h), to meet, and as much again to move some bytes; never more than the
  // communicator's timeout.
  std::chrono::milliseconds trial_time = std::chrono::seconds(30);
  // Tests bring their own library and their own device, with kernels of its own.
  const NcclLibrary* library = nullptr;
  std::function<void(Device, const std::vector<ArrayWrite>&)> write = write_arrays;
};

// Throws ConfigError where this process has no NCCL (nccl_library.h says why). Collective only in
// its first operation.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> hosts,
                                                     Device device, const NcclOptions& options);

struct TriedNccl {
  std::unique_ptr<Communicator> comm = {};  // null where the trial has failed
  std::string failed = {};                  // a sentence; the same on all ranks
};

// The same after a trial, which is collective, and whose meeting the communicator goes on with.
// `hosts` is taken where the trial passes, and as it was where it does not.
TriedNccl try_nccl_communicator(std::unique_ptr<Communicator>& hosts, Device device,
                                const NcclOptions& options);

}  // namespace zeroshard
