// Every environment variable ZeroShard reads, and the only place that reads them.
// docs/env_variables.md lists the same names; a test compares the two.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace zeroshard {

enum class EnvVar {
  kLog,          // ZEROSHARD_LOG
  kRank,         // RANK
  kOpenMpiRank,  // OMPI_COMM_WORLD_RANK
  kPmixRank,     // PMIX_RANK
  kSlurmRank,    // SLURM_PROCID
};

struct EnvVarInfo {
  EnvVar var;
  const char* name;
  const char* meaning;
};

std::span<const EnvVarInfo> all_env_vars();

// The variable's text, or nothing where it is unset or empty.
std::optional<std::string> env_text(EnvVar var);

// The variable as a whole number, or nothing where it is unset or not one.
std::optional<std::int64_t> env_integer(EnvVar var);

}  // namespace zeroshard
