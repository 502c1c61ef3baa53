// How much more host memory this process may take. A container may see 500 GiB and be allowed 60:
// who takes more is ended by the kernel, without a word.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace zeroshard {

struct MemoryRoom {
  std::int64_t bytes = 0;  // that can still be had
  std::string set_by;      // the file that says so

  bool operator==(const MemoryRoom&) const = default;
};

// The least of what /proc/meminfo calls available and of what the process's cgroup and its
// ancestors leave: their limit less their use, where cached files do not count as used because the
// kernel gives them up first. Knows cgroup v2 and v1. Nothing where no file says anything. `root`
// is where /proc and /sys are looked for, so that tests can bring their own.
std::optional<MemoryRoom> memory_room(const std::filesystem::path& root = "/");

}  // namespace zeroshard
