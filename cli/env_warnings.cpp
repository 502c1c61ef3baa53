#include <charconv>

#include <fmt/format.h>

#include "cli/env_report.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/nearest.h"

namespace zeroshard::cli {
namespace {

constexpr std::int64_t kLittleLockable = 1024 * kMiB;
constexpr std::int64_t kLittleShared = 512 * kMiB;  // containers often get 64 MiB
constexpr std::int64_t kFewFiles = 1024;

using Sentences = std::vector<std::string>;

const Variable* find_variable(const EnvReport& report, std::string_view name) {
  for (const Variable& variable : report.variables) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

void warn_of_torch(const EnvReport& report, Sentences& warnings) {
  const LoadedTorch& torch = report.torch;
  if (report.built.torch == "none") {
    warnings.emplace_back(
        "built without torch: nothing here can train; run 'make setup' and build "
        "again");
  } else if (torch.library.empty()) {
    warnings.push_back("no libtorch to load: " + torch.problem);
  } else if (!torch.version.empty() && torch.version != report.built.torch) {
    warnings.push_back(fmt::format(
        "built with torch {}, but torch {} would be loaded; build again with the latter",
        report.built.torch, torch.version));
  }
  if (!report.gpus.empty() && report.built.torch_cuda == "none") {
    warnings.emplace_back("there are GPUs, but torch was built without CUDA: install one that was");
  }
}

// "Open MPI 4.1.4" -> "Open MPI 4.1": releases of one series work together.
std::string series_of(const std::string& version) {
  const std::size_t first = version.find('.');
  return version.substr(0, first == version.npos ? first : version.find('.', first + 1));
}

void warn_of_mpi(const EnvReport& report, Sentences& warnings) {
  if (report.built.mpi == "none") return;
  if (report.mpirun.empty()) {
    warnings.emplace_back(
        "no mpirun on the PATH: 'zeroshard run' starts one rank only; install Open MPI "
        "(Debian: openmpi-bin)");
  } else if (series_of(report.mpirun) != series_of(report.built.mpi)) {
    warnings.push_back(fmt::format("built with {}, but mpirun is {}: ranks may not find each other",
                                   report.built.mpi, report.mpirun));
  }
}

void warn_of_threads(const EnvReport& report, Sentences& warnings) {
  const Cpu& cpu = report.cpu;
  const Variable* threads = find_variable(report, "OMP_NUM_THREADS");
  if (threads == nullptr && cpu.usable < cpu.affinity) {
    warnings.push_back(fmt::format(
        "the cgroup allows {} of {} CPUs, which torch does not see: set OMP_NUM_THREADS={}",
        cpu.usable, cpu.affinity, cpu.usable));
  }
  if (threads == nullptr || !threads->value) return;
  int number = 0;
  const std::string& text = *threads->value;
  std::from_chars(text.data(), text.data() + text.size(), number);
  if (number > cpu.usable) {
    warnings.push_back(
        fmt::format("OMP_NUM_THREADS={} is more than the {} usable CPU{}: threads "
                    "will wait for each other",
                    text, cpu.usable, cpu.usable == 1 ? "" : "s"));
  }
}

// Only copies to and from a GPU want locked memory.
void warn_of_locking(const EnvReport& report, Sentences& warnings) {
  const auto& limit = report.limits.memlock_bytes;
  if (report.gpus.empty() || !limit || *limit >= kLittleLockable) return;
  warnings.push_back(fmt::format(
      "only {} may be locked: pinned memory and RDMA networks may fail; ulimit -l unlimited",
      human_bytes(*limit)));
}

void warn_of_limits(const Limits& limits, Sentences& warnings) {
  if (!limits.shm_total_bytes) {
    warnings.emplace_back("no /dev/shm: ranks of one host cannot share memory");
  } else if (*limits.shm_total_bytes < kLittleShared) {
    warnings.push_back(
        fmt::format("/dev/shm has only {}: ranks of one host may fail to share memory; in a "
                    "container, start it with --shm-size=8g",
                    human_bytes(*limits.shm_total_bytes)));
  }
  if (limits.open_files && *limits.open_files < kFewFiles) {
    warnings.push_back(
        fmt::format("only {} files may be open: connections between many ranks may "
                    "fail; ulimit -n 65536",
                    *limits.open_files));
  }
  if (limits.transparent_huge_pages == "never") {
    warnings.emplace_back(
        "transparent huge pages are off: updates of offloaded states are slower; "
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
  }
}

void warn_of_variables(const EnvReport& report, Sentences& warnings) {
  std::vector<std::string> known;
  for (const EnvVarInfo& info : all_env_vars()) known.emplace_back(info.name);
  for (const auto& [name, value] : report.variables) {
    if (value || !name.starts_with("ZEROSHARD_")) continue;
    const auto meant = nearest(name, known);
    warnings.push_back(fmt::format("{} is set, but nothing reads it{}", name,
                                   meant ? "; did you mean " + *meant + "?" : ""));
  }
}

}  // namespace

std::vector<std::string> warnings_of(const EnvReport& report) {
  Sentences warnings;
  warn_of_torch(report, warnings);
  warn_of_mpi(report, warnings);
  warn_of_threads(report, warnings);
  if (report.cpu.optimizer_kernels == "scalar") {
    warnings.emplace_back(
        "the CPU has neither AVX2 nor AVX-512: updates on it are several times slower");
  }
  warn_of_locking(report, warnings);
  warn_of_limits(report.limits, warnings);
  warn_of_variables(report, warnings);
  return warnings;
}

}  // namespace zeroshard::cli
