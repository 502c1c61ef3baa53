// Sets of CPUs, as the kernel counts them, and where a thread may run.
//
//   CpuSet near = common_cpus(affinity(), cpus_in_list("0-15,32-47"));
//   if (!near.empty()) set_affinity(near);
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

// Their numbers, rising, each once.
using CpuSet = std::vector<int>;

// "0-3,8" as the kernel's files have it. Empty where the text is no such list.
CpuSet cpus_in_list(std::string_view text);
// "0-3,8"
std::string list_of_cpus(const CpuSet& cpus);

CpuSet common_cpus(const CpuSet& one, const CpuSet& other);

// Where the calling thread may run; never empty.
CpuSet affinity();
// The calling thread, and all that it starts from now on. False where the kernel refuses.
bool set_affinity(const CpuSet& cpus);

}  // namespace zeroshard
