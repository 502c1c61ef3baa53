// What a rank computes with.
#pragma once

#include <cstdint>
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

// Threads: OMP_NUM_THREADS, else the usable CPUs divided by the ranks of this host. Tells whether
// that leaves a core idle for each of these ranks. Collective.
bool choose_threads(Communicator& comm);

}  // namespace zeroshard
