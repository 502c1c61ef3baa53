// Pure functions for `zeroshard env`: what other programs and the kernel's files say, as values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/env_report.h"

namespace zeroshard::cli {

// Of /proc/cpuinfo: `model`, `online`, `instruction_sets` and `optimizer_kernels`.
Cpu parse_cpuinfo(std::string_view text);

// The kernels that zeroshard/numeric/isa.cpp chooses on a CPU with these flags: as there, by name.
std::string optimizer_kernels(const std::vector<std::string>& cpu_flags);

// Of /proc/meminfo: bytes (or a count, where the line has no kB) by name.
std::map<std::string, std::int64_t> parse_meminfo(std::string_view text);

// "always [madvise] never" -> "madvise".
std::optional<std::string> chosen_word(std::string_view text);

// The folders that limit a process, most general first, from /proc/self/cgroup: for version 2
// "/sys/fs/cgroup/a", for version 1 the memory controller's.
std::vector<std::string> memory_cgroups(std::string_view cgroup_text);

// Of nvidia-smi --query-gpu=name,pci.bus_id,driver_version,memory.total
// --format=csv,noheader,nounits.
std::vector<Gpu> parse_nvidia_smi(std::string_view text);

// Of /proc/driver/nvidia/gpus/*/information, and of /proc/driver/nvidia/version.
Gpu parse_gpu_information(std::string_view text);
std::string parse_driver_version(std::string_view text);

// Where the loader finds a library, from what `ld.so --list PROGRAM` prints; nothing where the
// program does not ask for it.
std::optional<std::string> library_path(std::string_view loader_text, std::string_view library);

// Of torch/version.py, or of the build-version file of a libtorch that came without Python.
std::string parse_torch_version(std::string_view text);

// The first line of `mpirun --version` -> "Open MPI 4.1.4"; "" where it is something else.
std::string parse_mpirun_version(std::string_view text);

}  // namespace zeroshard::cli
