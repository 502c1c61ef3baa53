// What the kernel says of this process's mappings, from /proc/self/smaps.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace zeroshard {

struct MappedRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::string flags;  // " rd wr mr mw me dc ac hg ": dc is not copied by a fork, hg huge pages

  bool has(const std::string& flag) const { return flags.find(" " + flag) != std::string::npos; }
};

// The mapping in which the address lies; nothing where there is none.
inline std::optional<MappedRange> mapping_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream file("/proc/self/smaps");
  std::optional<MappedRange> found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    MappedRange range;
    char dash = 0;
    if (words >> std::hex >> range.begin >> dash >> range.end && dash == '-') {
      if (found) break;
      if (range.begin <= address && address < range.end) found = range;
    } else if (found && line.starts_with("VmFlags:")) {
      found->flags = line.substr(8);
    }
  }
  return found;
}

}  // namespace zeroshard
