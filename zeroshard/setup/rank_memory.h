// How much memory each rank may take, agreed by all: a plan is the same on every rank, so the one
// that has least decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"
#include "zeroshard/planner/variants.h"

namespace zeroshard {

// What the user gives, in place of what is there.
struct GivenMemory {
  std::optional<std::int64_t> device = {};  // of a rank
  std::optional<std::int64_t> host = {};    // of a host
};

struct RankMemory {
  MemoryLimits limits;
  int ranks_on_host = 1;          // of the host that has most
  std::string host_said_by = {};  // the file that limits the host; empty where it is another host's
};

// Before anything is allocated. Ranks that share a device share its memory. Collective.
RankMemory agree_on_memory(Device device, const GivenMemory& given, Communicator& comm);

// What is in physical memory of this process, now and at most, all libraries included; 0 if not
// known.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

}  // namespace zeroshard
