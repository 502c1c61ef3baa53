#include "zeroshard/checkpoint/free_space.h"

#include <sys/statvfs.h>

namespace zeroshard {

std::optional<std::uint64_t> free_bytes(const std::filesystem::path& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return std::uint64_t{status.f_bfree} * status.f_frsize;
}

}  // namespace zeroshard
