#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include <elf.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "cli/capture.h"
#include "cli/env_parse.h"
#include "cli/env_report.h"
#include "cli/process.h"
#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"

namespace zeroshard::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLoaderLimit{5000};
constexpr std::chrono::milliseconds kMpirunLimit{5000};
constexpr std::chrono::milliseconds kNvidiaSmiLimit{20000};  // it wakes the GPUs up first

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "" where there is none.
std::string program_on_path(const std::string& name) {
  try {
    return find_program(name, "");
  } catch (const ConfigError&) {
    return "";
  }
}

// The loader that an ELF program asks for; "" where the file is no such program. A program that
// needs no loader would run, were it asked what it loads: hence this look first.
std::string loader_of(const fs::path& program) {
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return "";
  const std::string magic(reinterpret_cast<const char*>(header.e_ident), SELFMAG);
  if (magic != ELFMAG || header.e_ident[EI_CLASS] != ELFCLASS64) return "";
  for (int index = 0; index < header.e_phnum; ++index) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff) + index * header.e_phentsize);
    if (!file.read(reinterpret_cast<char*>(&part), sizeof(part))) return "";
    if (part.p_type != PT_INTERP || part.p_filesz > 4096) continue;
    std::string loader(part.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(part.p_offset));
    if (!file.read(loader.data(), static_cast<std::streamsize>(loader.size()))) return "";
    return loader.c_str();  // without the zero at its end
  }
  return "";
}

std::string torch_version_of(const fs::path& library) {
  const fs::path root = library.parent_path().parent_path();
  for (const char* name : {"version.py", "build-version"}) {
    std::string version = parse_torch_version(read_file(root / name));
    if (!version.empty()) return version;
  }
  return "";
}

// Asks the loader, which knows the search path of the program and of the system, and starts
// nothing.
LoadedTorch find_torch(const std::string& program) {
  LoadedTorch torch;
  torch.program =
      program.empty() ? trainer_path() : find_program(program, "give the path of a program");
  std::error_code ignored;
  if (!fs::exists(torch.program, ignored)) {
    torch.problem = "no program " + torch.program;
    return torch;
  }
  const std::string loader = loader_of(torch.program);
  if (loader.empty()) {
    torch.problem = torch.program + " is no dynamically linked program";
    return torch;
  }
  const std::string text = captured_output({loader, "--list", torch.program}, kLoaderLimit);
  const auto library = library_path(text, "libtorch_cpu.so");
  if (text.empty()) {
    torch.problem = "a library is missing; see: ldd " + torch.program;
  } else if (!library) {
    torch.problem = torch.program + " is not linked to libtorch";
  } else {
    torch.library = fs::weakly_canonical(*library, ignored).string();
    torch.version = torch_version_of(torch.library);
  }
  return torch;
}

std::vector<Gpu> gpus_of_driver() {
  std::vector<Gpu> gpus;
  std::error_code ignored;
  const std::string driver = parse_driver_version(read_file("/proc/driver/nvidia/version"));
  for (const auto& folder : fs::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    gpus.push_back(parse_gpu_information(read_file(folder.path() / "information")));
    gpus.back().driver = driver;
  }
  std::ranges::sort(gpus, {}, &Gpu::bus);
  return gpus;
}

std::vector<Gpu> find_gpus() {
  const std::string nvidia_smi = program_on_path("nvidia-smi");
  if (!nvidia_smi.empty()) {
    const std::string text =
        captured_output({nvidia_smi, "--query-gpu=name,pci.bus_id,driver_version,memory.total",
                         "--format=csv,noheader,nounits"},
                        kNvidiaSmiLimit);
    std::vector<Gpu> gpus = parse_nvidia_smi(text);
    if (!gpus.empty()) return gpus;
  }
  return gpus_of_driver();
}

Cpu read_cpu() {
  Cpu cpu = parse_cpuinfo(read_file("/proc/cpuinfo"));
  cpu.affinity = affinity_cpus();
  cpu.quota = cgroup_cpus("/", read_file("/proc/self/cgroup"));
  cpu.usable = usable_cpus();
  return cpu;
}

// The least of version 2's and version 1's; "max" is no number, and version 1 writes a huge one.
std::optional<std::int64_t> cgroup_memory(std::int64_t total) {
  std::optional<std::int64_t> least;
  for (const fs::path folder : memory_cgroups(read_file("/proc/self/cgroup"))) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      std::ifstream file(folder / name);
      std::int64_t limit = 0;
      if (file >> limit && limit < least.value_or(total)) least = limit;
    }
  }
  return least;
}

Memory read_memory() {
  auto info = parse_meminfo(read_file("/proc/meminfo"));
  return {.total_bytes = info["MemTotal"],
          .available_bytes = info["MemAvailable"],
          .cgroup_limit_bytes = cgroup_memory(info["MemTotal"])};
}

std::optional<std::int64_t> limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  constexpr rlim_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(limit.rlim_cur, kMost));
}

Limits read_limits() {
  auto info = parse_meminfo(read_file("/proc/meminfo"));
  Limits limits{.memlock_bytes = limit_of(RLIMIT_MEMLOCK),
                .open_files = limit_of(RLIMIT_NOFILE),
                .transparent_huge_pages =
                    chosen_word(read_file("/sys/kernel/mm/transparent_hugepage/enabled")),
                .huge_page_bytes = info["Hugepagesize"],
                .huge_pages = info["HugePages_Total"],
                .huge_pages_free = info["HugePages_Free"]};
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    const auto block = static_cast<std::int64_t>(shm.f_frsize);
    limits.shm_total_bytes = static_cast<std::int64_t>(shm.f_blocks) * block;
    limits.shm_free_bytes = static_cast<std::int64_t>(shm.f_bavail) * block;
  }
  return limits;
}

std::string mpirun_version() {
  const std::string mpirun = program_on_path("mpirun");
  if (mpirun.empty()) return "";
  const std::string version =
      parse_mpirun_version(captured_output({mpirun, "--version"}, kMpirunLimit));
  return version.empty() ? mpirun + ", of an unknown version" : version;
}

Backend mpi_backend(const BuildVersions& built, const std::string& mpirun) {
  const bool linked = built.mpi != "none";
  const bool both = linked && !mpirun.empty();
  return {.name = "mpi",
          .usable = both,
          .detail = both     ? fmt::format("built with {}, mpirun is {}", built.mpi, mpirun)
                    : linked ? fmt::format("built with {}, no mpirun on the PATH", built.mpi)
                             : "built without MPI"};
}

// All that ZeroShard reads, with their values; of others that change what a run does, the names.
std::vector<Variable> read_variables() {
  std::vector<Variable> variables;
  std::set<std::string> known{"PATH", "HOME", "XDG_CACHE_HOME"};  // everybody has these
  for (const EnvVarInfo& info : all_env_vars()) {
    const bool may_be_empty = info.var == EnvVar::kVisibleGpus;
    const auto value = may_be_empty ? env_exact(info.var) : env_text(info.var);
    if (!known.insert(info.name).second) continue;
    if (value) variables.push_back({info.name, *value});
  }
  std::vector<std::string> others = env_names_with_prefixes(
      {"ZEROSHARD_", "OMP_", "GOMP_", "KMP_", "MKL_", "NCCL_", "CUDA_", "TORCH_", "PYTORCH_",
       "OMPI_MCA_", "LD_LIBRARY_PATH", "LD_PRELOAD", "MALLOC_"});
  std::ranges::sort(others);
  for (const std::string& name : others) {
    if (!known.contains(name)) variables.push_back({name, std::nullopt});
  }
  return variables;
}

}  // namespace

EnvReport collect_env(const BuildVersions& built, const std::string& program) {
  EnvReport report{.built = built,
                   .torch = find_torch(program),
                   .gpus = find_gpus(),
                   .cpu = read_cpu(),
                   .memory = read_memory(),
                   .limits = read_limits(),
                   .mpirun = mpirun_version(),
                   .backends = {{"single", true, "one rank"},
                                {"thread", true, "ranks are threads of one process, on the CPU"}},
                   .variables = read_variables()};
  report.backends.push_back(mpi_backend(built, report.mpirun));
  const Calibration kept = Calibration::load(calibration_file());
  for (const MachineMeasurement& one : kept.all()) {
    if (one.host == host_name()) report.measured.push_back(one);
  }
  return report;
}

}  // namespace zeroshard::cli
