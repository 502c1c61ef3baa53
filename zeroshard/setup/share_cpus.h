// How the ranks of a machine share its CPUs: a pure function from where each may run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "zeroshard/base/cpu_set.h"

namespace zeroshard {

// What a rank says of itself.
struct RankCpus {
  std::int32_t host = 0;                           // equal where ranks are on one machine
  CpuSet may_use;                                  // its mask, or what of that is near its GPU
  std::optional<int> quota = {};                   // CPUs that its cgroup allows
  std::optional<std::int64_t> given_threads = {};  // OMP_NUM_THREADS
};

struct CpuShare {
  CpuSet cpus;  // never empty, and no other rank's unless there are too few
  int threads = 1;
  bool leaves_idle_core = false;
};

// For each rank. CPUs that several ranks of a machine may use are cut into equal parts, along cores
// where that comes out even; `cores` are those of this machine, and change no other's numbers. A
// rank whose parts come to nothing keeps all that it may use. Quotas are counted as the machine's.
std::vector<CpuShare> share_cpus(const std::vector<RankCpus>& ranks,
                                 const std::vector<CpuSet>& cores);

}  // namespace zeroshard
