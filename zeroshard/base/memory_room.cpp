#include "zeroshard/base/memory_room.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include "zeroshard/base/cgroup.h"
#include "zeroshard/base/leading_number.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> number_in(const fs::path& path) {
  const std::string text = text_of_file(path);
  std::string_view rest = text;
  const auto number = take_number(rest);  // "max" is none
  return number && *number >= 0 ? number : std::nullopt;
}

// The number behind a name in lines of `name number`.
std::optional<std::int64_t> number_behind(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto space = line.find(' ');
    if (space == line.npos || line.compare(0, space, name) != 0) continue;
    std::string_view rest = std::string_view(line).substr(space);
    return take_number(rest);
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char* limit;
  const char* use;
  const char* stat_prefix;  // version 1 counts the groups below under names of their own
};
constexpr CgroupFiles kV2{"memory.max", "memory.current", ""};
constexpr CgroupFiles kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};

std::int64_t cached_files_in(const fs::path& folder, const std::string& prefix) {
  const std::string text = text_of_file(folder / "memory.stat");
  return number_behind(text, prefix + "inactive_file").value_or(0) +
         number_behind(text, prefix + "active_file").value_or(0);
}

std::optional<MemoryRoom> room_in(const fs::path& folder, const CgroupFiles& files) {
  const auto limit = number_in(folder / files.limit);
  if (!limit) return std::nullopt;
  const std::int64_t use = number_in(folder / files.use).value_or(0);
  const std::int64_t kept =
      std::max<std::int64_t>(0, use - std::min(use, cached_files_in(folder, files.stat_prefix)));
  return MemoryRoom{std::max<std::int64_t>(0, *limit - kept), (folder / files.limit).string()};
}

std::optional<MemoryRoom> available_in(const fs::path& meminfo) {
  const auto kibibytes = number_behind(text_of_file(meminfo), "MemAvailable:");
  if (!kibibytes) return std::nullopt;
  return MemoryRoom{*kibibytes * 1024, meminfo.string()};
}

}  // namespace

std::optional<MemoryRoom> memory_room(const fs::path& root) {
  std::optional<MemoryRoom> least = available_in(root / "proc/meminfo");
  const auto keep_smaller = [&](const fs::path& folder, CgroupVersion version) {
    auto room = room_in(folder, version == CgroupVersion::v2 ? kV2 : kV1);
    if (room && (!least || room->bytes < least->bytes)) least = std::move(room);
  };
  for_each_cgroup_folder(root, text_of_file(root / "proc/self/cgroup"), "memory", keep_smaller);
  return least;
}

}  // namespace zeroshard
