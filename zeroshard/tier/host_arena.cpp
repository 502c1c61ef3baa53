#include "zeroshard/tier/host_arena.h"

#include <algorithm>
#include <iterator>

#include "zeroshard/base/check.h"

namespace zeroshard {

HostArena::HostArena(std::int64_t bytes) {
  ZS_CHECK_GE(bytes, 0, "bytes of an arena");
  if (bytes > 0) gaps_[0] = bytes;
}

std::optional<std::int64_t> HostArena::take(std::int64_t bytes) {
  ZS_CHECK_GT(bytes, 0, "bytes of a part");
  const std::lock_guard lock(mutex_);
  const auto gap =
      std::ranges::find_if(gaps_, [&](const auto& each) { return each.second >= bytes; });
  if (gap == gaps_.end()) return std::nullopt;
  const auto [begin, length] = *gap;
  gaps_.erase(gap);
  if (length > bytes) gaps_[begin + bytes] = length - bytes;
  return begin;
}

void HostArena::give_back(std::int64_t begin, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto gap = gaps_.emplace(begin, bytes).first;
  const auto next = std::next(gap);
  if (next != gaps_.end()) {
    ZS_CHECK_LE(begin + bytes, next->first, "a part of an arena was given back twice");
    if (begin + bytes == next->first) {
      gap->second += next->second;
      gaps_.erase(next);
    }
  }
  if (gap == gaps_.begin()) return;
  const auto before = std::prev(gap);
  ZS_CHECK_LE(before->first + before->second, begin, "a part of an arena was given back twice");
  if (before->first + before->second < begin) return;
  before->second += gap->second;
  gaps_.erase(gap);
}

std::int64_t HostArena::free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& [begin, length] : gaps_) bytes += length;
  return bytes;
}

}  // namespace zeroshard
