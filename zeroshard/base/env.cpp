#include "zeroshard/base/env.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

namespace zeroshard {
namespace {

// In the order of the enum, so that the index is the value.
constexpr std::array<EnvVarInfo, 28> kEnvVars{{
    {EnvVar::kLog, "ZEROSHARD_LOG", "log level, and which ranks log: info, debug:all, warning:3"},
    {EnvVar::kControlPort, "ZEROSHARD_CONTROL_PORT", "port of rank 0's control channel"},
    {EnvVar::kRank, "RANK", "rank of this process, set by torchrun"},
    {EnvVar::kWorldSize, "WORLD_SIZE", "number of ranks, set by torchrun"},
    {EnvVar::kLocalRank, "LOCAL_RANK", "rank on this host, set by torchrun"},
    {EnvVar::kTorchrunId, "TORCHELASTIC_RUN_ID", "there under torchrun"},
    {EnvVar::kOpenMpiRank, "OMPI_COMM_WORLD_RANK", "rank of this process, set by Open MPI"},
    {EnvVar::kOpenMpiSize, "OMPI_COMM_WORLD_SIZE", "number of ranks, set by Open MPI"},
    {EnvVar::kOpenMpiLocalRank, "OMPI_COMM_WORLD_LOCAL_RANK", "rank on this host, set by Open MPI"},
    {EnvVar::kPmixRank, "PMIX_RANK", "rank of this process, set by PMIx launchers"},
    {EnvVar::kSlurmRank, "SLURM_PROCID", "rank of this process, set by srun"},
    {EnvVar::kSlurmSize, "SLURM_STEP_NUM_TASKS", "number of ranks, set by srun"},
    {EnvVar::kSlurmLocalRank, "SLURM_LOCALID", "rank on this host, set by srun"},
    {EnvVar::kPmiSize, "PMI_SIZE", "number of ranks, set by MPICH and its relatives"},
    {EnvVar::kPath, "PATH", "where programs are looked for"},
    {EnvVar::kOmpThreads, "OMP_NUM_THREADS", "threads of a rank"},
    {EnvVar::kTerminalColumns, "ZEROSHARD_TERMINAL_COLUMNS", "width of the terminal behind mpirun"},
    {EnvVar::kPython, "ZEROSHARD_PYTHON", "the interpreter that runs Python programs"},
    {EnvVar::kTorchCpu, "ATEN_CPU_CAPABILITY", "the instruction set that torch is held to"},
    {EnvVar::kCalibration, "ZEROSHARD_CALIBRATION", "the file that keeps what was measured here"},
    {EnvVar::kCacheHome, "XDG_CACHE_HOME", "where such files are, if that is not set"},
    {EnvVar::kHome, "HOME", "whose .cache that is, if neither is set"},
    {EnvVar::kNccl, "ZEROSHARD_NCCL", "NCCL between GPUs: 1 insists, 0 refuses"},
    {EnvVar::kNcclMultiRank, "NCCL_MULTI_RANK_GPU_ENABLE", "1: NCCL lets ranks share a GPU"},
    {EnvVar::kTorchAllocator, "PYTORCH_ALLOC_CONF", "settings of torch's allocator"},
    {EnvVar::kTorchCudaAlloc, "PYTORCH_CUDA_ALLOC_CONF", "settings of torch's allocator on GPUs"},
    {EnvVar::kVisibleGpus, "CUDA_VISIBLE_DEVICES", "the GPUs that CUDA shows; empty: none"},
    {EnvVar::kBind, "ZEROSHARD_BIND", "0: threads of a rank do not stay near its GPU"},
}};

const char* name_of(EnvVar var) { return kEnvVars[static_cast<std::size_t>(var)].name; }

}  // namespace

std::span<const EnvVarInfo> all_env_vars() { return kEnvVars; }

std::optional<std::string> env_text(EnvVar var) {
  const auto text = env_exact(var);
  return text && !text->empty() ? text : std::nullopt;
}

std::optional<std::string> env_exact(EnvVar var) {
  const char* text = std::getenv(name_of(var));
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

void set_env(EnvVar var, const std::string& text) {
  setenv(name_of(var), text.c_str(), /*replace=*/1);
}

std::vector<std::string> env_names_with_prefixes(const std::vector<std::string>& prefixes) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    const auto begins = [&](const std::string& prefix) { return name.starts_with(prefix); };
    if (std::ranges::any_of(prefixes, begins)) names.push_back(name);
  }
  return names;
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
