// Which CPUs of a machine are near a GPU: pure functions over what the kernel says, and the reading
// of that. A machine with several memories (NUMA nodes) has each GPU at one of them; what a rank
// copies to its GPU, and the threads that update offloaded states, should be there too.
//
//   const CpuSet near = near_cpus(read_places(), "0000:3b:00.0", affinity());
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "zeroshard/base/cpu_set.h"

namespace zeroshard {

struct MemoryNode {
  CpuSet cpus;
  std::vector<int> distances;  // to each node of the machine, this one included; may be too short
};

// What the kernel says of a machine. Empty where it says nothing.
struct MachinePlaces {
  std::vector<MemoryNode> nodes;                 // by their numbers
  std::map<std::string, std::size_t> gpu_nodes;  // by "0000:3b:00.0": which of `nodes`
  std::vector<CpuSet> cores;                     // CPUs that are threads of one core
};

// `root` is where /sys is looked for, so that tests can bring their own.
MachinePlaces read_places(const std::filesystem::path& root = "/");

// A place on the bus as /sys names it: drivers write "00000000:3B:00.0" for the same.
std::string bus_name(std::string text);

// Whether the GPU at `bus` has a node that is known.
bool knows_place(const MachinePlaces& places, const std::string& bus);

// Of the CPUs in `mask` those to which no GPU of the machine is nearer than this one. So nodes
// without a GPU belong to the nearest ones that have one, and the CPUs of a machine with one GPU
// are all near it. All of `mask` where the place is not known, or where somebody has chosen other
// CPUs.
CpuSet near_cpus(const MachinePlaces& places, const std::string& bus, const CpuSet& mask);

}  // namespace zeroshard
