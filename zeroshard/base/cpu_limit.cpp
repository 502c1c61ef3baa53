#include "zeroshard/base/cpu_limit.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

// One line of /proc/self/cgroup: `hierarchy:controllers:path`. Version 2 has no controllers.
struct CgroupLine {
  std::string controllers;
  std::string path;
};

std::vector<CgroupLine> read_cgroup_lines(std::string_view text) {
  std::vector<CgroupLine> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) {
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    lines.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return lines;
}

bool has_cpu_controller(std::string_view controllers) {
  return ("," + std::string(controllers) + ",").find(",cpu,") != std::string::npos;
}

std::optional<int> cpus_of_quota(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return std::nullopt;
  const std::int64_t cpus = quota / period + (quota % period != 0 ? 1 : 0);
  return static_cast<int>(std::min<std::int64_t>(cpus, std::numeric_limits<int>::max()));
}

// "max 100000" reads as no quota, because "max" is not a number.
std::optional<int> v2_cpus(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  std::int64_t quota = 0, period = 0;
  if (!(file >> quota >> period)) return std::nullopt;
  return cpus_of_quota(quota, period);
}

std::optional<int> v1_cpus(const fs::path& folder) {
  std::ifstream quota_file(folder / "cpu.cfs_quota_us"), period_file(folder / "cpu.cfs_period_us");
  std::int64_t quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  return cpus_of_quota(quota, period);  // -1: no quota
}

void keep_smaller(std::optional<int>& least, std::optional<int> cpus) {
  if (cpus && (!least || *cpus < *least)) least = cpus;
}

// Asks the mount point and every folder on the way down to the process's own. Inside a container
// the path may be the host's; its folders are then missing, and the mount point is the container's
// own.
std::optional<int> least_on_path(const fs::path& mount, const std::string& path,
                                 std::optional<int> (*cpus_at)(const fs::path&)) {
  fs::path folder = mount;
  std::optional<int> least = cpus_at(folder);
  for (const fs::path& part : fs::path(path).relative_path()) {
    if (part == "..") break;  // the process sits outside of what this namespace shows
    folder /= part;
    keep_smaller(least, cpus_at(folder));
  }
  return least;
}

std::string read_text_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int affinity_cpus() {
  constexpr int kMostCpus = 1 << 20;
  // The kernel refuses a mask smaller than its own, and does not say how large that is.
  for (int size = CPU_SETSIZE; size <= kMostCpus; size *= 2) {
    std::vector<cpu_set_t> mask(static_cast<std::size_t>(size / CPU_SETSIZE));
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0)
      return std::max(1, CPU_COUNT_S(bytes, mask.data()));
    if (errno != EINVAL) break;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::optional<int> cgroup_cpus(const fs::path& root, std::string_view cgroup_text) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::optional<int> least;
  for (const auto& [controllers, path] : read_cgroup_lines(cgroup_text)) {
    if (controllers.empty()) {
      keep_smaller(least, least_on_path(mount, path, v2_cpus));
    } else if (has_cpu_controller(controllers)) {
      // Mounted under the full list of controllers, or under a link named after one of them.
      keep_smaller(least, least_on_path(mount / controllers, path, v1_cpus));
      keep_smaller(least, least_on_path(mount / "cpu", path, v1_cpus));
    }
  }
  return least;
}

int usable_cpus() {
  const int cpus = affinity_cpus();
  const auto quota = cgroup_cpus("/", read_text_file("/proc/self/cgroup"));
  return std::max(1, std::min(cpus, quota.value_or(cpus)));
}

}  // namespace zeroshard
