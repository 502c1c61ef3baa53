// What a rank computes with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

// "cpu", "cuda" (the host's GPU number `local_rank`, or one that several ranks share), "cuda:1";
// empty: cuda where there is one. Loads torch's accelerators unless the CPU is asked for. With
// `device_memory` torch's allocator gives out no more than that of a GPU (allocator_limit.h).
Device choose_device(const std::string& wanted, int local_rank,
                     std::optional<std::int64_t> device_memory = {});

// Keeps the calling thread, and all that it starts from now on, on those of its CPUs that are near
// the GPU (near_gpu.h), so that memory that they are the first to touch is there too. Call it
// before anything else of the engine, which has threads. False, and nothing is changed, where the
// device is the CPU, where the machine does not say what is near, and with ZEROSHARD_BIND=0. `root`
// is where /sys is looked for.
bool stay_near(Device device, const std::filesystem::path& root = "/");

// How many threads ranks compute with.
struct ThreadsOfRanks {
  int least = 1;
  int most = 1;
  bool leave_idle_cores = false;  // one for each rank, on which its communication can run aside
};

// Threads: OMP_NUM_THREADS, else the rank's share of the CPUs that it may use (share_cpus.h).
// `stays_near` is what stay_near() has said: then the calling thread, and all that it starts from
// now on, stays on that share. Collective, and all ranks get the same answer.
ThreadsOfRanks choose_threads(Communicator& comm, bool stays_near = false);

}  // namespace zeroshard
