// Every environment variable ZeroShard reads, and the only place that reads them.
// docs/env_variables.md lists the same names; a test compares the two.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace zeroshard {

enum class EnvVar {
  kLog,               // ZEROSHARD_LOG
  kControlPort,       // ZEROSHARD_CONTROL_PORT
  kRank,              // RANK
  kWorldSize,         // WORLD_SIZE
  kLocalRank,         // LOCAL_RANK
  kTorchrunId,        // TORCHELASTIC_RUN_ID
  kOpenMpiRank,       // OMPI_COMM_WORLD_RANK
  kOpenMpiSize,       // OMPI_COMM_WORLD_SIZE
  kOpenMpiLocalRank,  // OMPI_COMM_WORLD_LOCAL_RANK
  kPmixRank,          // PMIX_RANK
  kSlurmRank,         // SLURM_PROCID
  kSlurmSize,         // SLURM_STEP_NUM_TASKS
  kSlurmLocalRank,    // SLURM_LOCALID
  kPmiSize,           // PMI_SIZE
  kPath,              // PATH
  kOmpThreads,        // OMP_NUM_THREADS
  kTerminalColumns,   // ZEROSHARD_TERMINAL_COLUMNS
  kPython,            // ZEROSHARD_PYTHON
  kTorchCpu,          // ATEN_CPU_CAPABILITY
  kCalibration,       // ZEROSHARD_CALIBRATION
  kCacheHome,         // XDG_CACHE_HOME
  kHome,              // HOME
  kNccl,              // ZEROSHARD_NCCL
  kNcclMultiRank,     // NCCL_MULTI_RANK_GPU_ENABLE
  kTorchAllocator,    // PYTORCH_ALLOC_CONF
  kTorchCudaAlloc,    // PYTORCH_CUDA_ALLOC_CONF
  kVisibleGpus,       // CUDA_VISIBLE_DEVICES
  kBind,              // ZEROSHARD_BIND
};

struct EnvVarInfo {
  EnvVar var;
  const char* name;
  const char* meaning;
};

std::span<const EnvVarInfo> all_env_vars();

// The variable's text, or nothing where it is unset or empty.
std::optional<std::string> env_text(EnvVar var);

// The same where an empty text has a meaning of its own.
std::optional<std::string> env_exact(EnvVar var);
// For libraries of this process that read it later. Before other threads read variables.
void set_env(EnvVar var, const std::string& text);

// Names of all variables of this process that begin with one of these.
std::vector<std::string> env_names_with_prefixes(const std::vector<std::string>& prefixes);

// The variable as a whole number, or nothing where it is unset or not one.
std::optional<std::int64_t> env_integer(EnvVar var);

}  // namespace zeroshard
