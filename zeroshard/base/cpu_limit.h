// How many CPUs this process may really use. A container may see 64 and be allowed two; starting 64
// threads there makes everything slower.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace zeroshard {

// The least of the affinity mask and the cgroup quotas, at least 1.
int usable_cpus();

// Of all last-level caches of the machine together; `cpus` is the folder of the kernel's words
// about CPUs. Some tens of MiB where it does not say.
std::int64_t last_level_cache_bytes(const std::filesystem::path& cpus = "/sys/devices/system/cpu");

// CPUs in the calling thread's affinity mask, at least 1.
int affinity_cpus();

// The quota of this process, as cgroup_cpus() finds it.
std::optional<int> cpu_quota();

// The smallest CPU quota that the process's cgroup or one of its ancestors sets, rounded up, or
// nothing where none does. `root` is where /sys/fs/cgroup is looked for and `cgroup_text` is what
// /proc/self/cgroup says, so that tests can bring their own. Knows cgroup v2 (cpu.max) and v1
// (cpu.cfs_quota_us). Files that are missing or unreadable set no limit.
std::optional<int> cgroup_cpus(const std::filesystem::path& root, std::string_view cgroup_text);

}  // namespace zeroshard
