#include "zeroshard/base/cpu_limit.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "zeroshard/base/cgroup.h"
#include "zeroshard/base/cpu_set.h"
#include "zeroshard/base/leading_number.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

std::optional<int> cpus_of_quota(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return std::nullopt;
  const std::int64_t cpus = quota / period + (quota % period != 0 ? 1 : 0);
  return static_cast<int>(std::min<std::int64_t>(cpus, std::numeric_limits<int>::max()));
}

std::optional<std::int64_t> number_in_file(const fs::path& path) {
  const std::string text = text_of_file(path);
  std::string_view rest = text;
  return take_number(rest);
}

// "max 100000" reads as no quota, because "max" is not a number.
std::optional<int> v2_cpus(const fs::path& folder) {
  const std::string text = text_of_file(folder / "cpu.max");
  std::string_view rest = text;
  const auto quota = take_number(rest);
  const auto period = quota ? take_number(rest) : std::nullopt;
  return period ? cpus_of_quota(*quota, *period) : std::nullopt;
}

std::optional<int> v1_cpus(const fs::path& folder) {
  const auto quota = number_in_file(folder / "cpu.cfs_quota_us");  // -1: no quota
  const auto period = number_in_file(folder / "cpu.cfs_period_us");
  return quota && period ? cpus_of_quota(*quota, *period) : std::nullopt;
}

void keep_smaller(std::optional<int>& least, std::optional<int> cpus) {
  if (cpus && (!least || *cpus < *least)) least = cpus;
}

// "32768K"
std::int64_t bytes_of_cache(const std::string& text) {
  std::string_view rest = text;
  const auto kib = take_number(rest);
  return kib && rest.starts_with('K') ? *kib * 1024 : 0;
}

}  // namespace

// A CPU has a folder for each of its caches, which it may share with others.
std::int64_t last_level_cache_bytes(const fs::path& cpus) {
  constexpr std::int64_t kUnknown = std::int64_t{64} << 20;
  std::int64_t level = 0;
  std::map<std::string, std::int64_t> caches;  // of that level, by who shares one
  for (int cpu = 0; fs::exists(cpus / ("cpu" + std::to_string(cpu)) / "cache"); ++cpu) {
    const fs::path folder = cpus / ("cpu" + std::to_string(cpu)) / "cache";
    for (int index = 0; fs::exists(folder / ("index" + std::to_string(index))); ++index) {
      const fs::path cache = folder / ("index" + std::to_string(index));
      const std::int64_t here = number_in_file(cache / "level").value_or(0);
      if (here < level) continue;
      if (here > level) caches.clear();
      level = here;
      caches[text_of_file(cache / "shared_cpu_list")] =
          bytes_of_cache(text_of_file(cache / "size"));
    }
  }
  std::int64_t sum = 0;
  for (const auto& [sharers, bytes] : caches) sum += bytes;
  return sum > 0 ? sum : kUnknown;
}

int affinity_cpus() { return static_cast<int>(affinity().size()); }

std::optional<int> cgroup_cpus(const fs::path& root, std::string_view cgroup_text) {
  std::optional<int> least;
  for_each_cgroup_folder(root, cgroup_text, "cpu", [&](const fs::path& folder, auto version) {
    keep_smaller(least, version == CgroupVersion::v2 ? v2_cpus(folder) : v1_cpus(folder));
  });
  return least;
}

std::optional<int> cpu_quota() { return cgroup_cpus("/", text_of_file("/proc/self/cgroup")); }

int usable_cpus() {
  const int cpus = affinity_cpus();
  return std::max(1, std::min(cpus, cpu_quota().value_or(cpus)));
}

}  // namespace zeroshard
