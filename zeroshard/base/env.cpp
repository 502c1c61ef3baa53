#include "zeroshard/base/env.h"

#include <array>
#include <charconv>
#include <cstdlib>

namespace zeroshard {
namespace {

// In the order of the enum, so that the index is the value.
constexpr std::array<EnvVarInfo, 5> kEnvVars{{
    {EnvVar::kLog, "ZEROSHARD_LOG", "log level, and which ranks log: info, debug:all, warning:3"},
    {EnvVar::kRank, "RANK", "rank of this process, set by torchrun"},
    {EnvVar::kOpenMpiRank, "OMPI_COMM_WORLD_RANK", "rank of this process, set by Open MPI"},
    {EnvVar::kPmixRank, "PMIX_RANK", "rank of this process, set by PMIx launchers"},
    {EnvVar::kSlurmRank, "SLURM_PROCID", "rank of this process, set by srun"},
}};

}  // namespace

std::span<const EnvVarInfo> all_env_vars() { return kEnvVars; }

std::optional<std::string> env_text(EnvVar var) {
  const char* text = std::getenv(kEnvVars[static_cast<std::size_t>(var)].name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string(text);
}

std::optional<std::int64_t> env_integer(EnvVar var) {
  const auto text = env_text(var);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace zeroshard
