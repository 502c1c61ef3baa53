// What `zeroshard env` tells: the software, the machine, and what of it will hurt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/planner/calibration.h"

namespace zeroshard::cli {

// What this program was built from and with. "none" means not found at that time.
struct BuildVersions {
  std::string zeroshard;
  std::string commit;
  std::string torch;
  std::string torch_cuda;  // the CUDA that torch was built for
  std::string mpi;         // "Open MPI 4.1.4"
  std::string cuda_toolkit;
};

// The libtorch that a training program would load.
struct LoadedTorch {
  std::string program;
  std::string library;  // empty: none was found, and `problem` says why
  std::string version;  // empty where it cannot be told
  std::string problem;
};

struct Gpu {
  std::string name;
  std::string bus;
  std::string driver;                        // empty where it cannot be told
  std::optional<std::int64_t> memory_bytes;  // only nvidia-smi knows
};

struct Cpu {
  std::string model;
  int online = 0;
  int affinity = 0;          // of those, what this process may run on
  std::optional<int> quota;  // what its cgroup allows
  int usable = 0;
  std::vector<std::string> instruction_sets;  // the ones that matter here
  std::string optimizer_kernels;              // "avx512"
};

struct Memory {
  std::int64_t total_bytes = 0;
  std::int64_t available_bytes = 0;
  std::optional<std::int64_t> cgroup_limit_bytes;
};

// Unset: no limit, or for /dev/shm and huge pages: not there.
struct Limits {
  std::optional<std::int64_t> memlock_bytes;
  std::optional<std::int64_t> open_files;
  std::optional<std::int64_t> shm_total_bytes;
  std::optional<std::int64_t> shm_free_bytes;
  std::optional<std::string> transparent_huge_pages;  // "always", "madvise", "never"
  std::int64_t huge_page_bytes = 0;
  std::int64_t huge_pages = 0;  // set aside by the administrator
  std::int64_t huge_pages_free = 0;
};

struct Backend {
  std::string name;
  bool usable = false;
  std::string detail;
};

struct Variable {
  std::string name;
  std::optional<std::string> value;  // unset: it is set, but not one that ZeroShard reads
  bool operator==(const Variable&) const = default;
};

struct EnvReport {
  BuildVersions built;
  LoadedTorch torch;
  std::vector<Gpu> gpus;
  Cpu cpu;
  Memory memory;
  Limits limits;
  std::string mpirun;  // "Open MPI 4.1.4"; empty where there is none
  std::vector<Backend> backends;
  std::vector<Variable> variables;
  std::vector<MachineMeasurement> measured;  // on this host
};

// Looks at this machine and process. `program`: whose libtorch to look for; empty: that of the
// training program beside this one.
EnvReport collect_env(const BuildVersions& built, const std::string& program);

// Pure: one sentence for each thing that will hurt, and what to do about it.
std::vector<std::string> warnings_of(const EnvReport& report);

}  // namespace zeroshard::cli
