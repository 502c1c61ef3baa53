// Parts of one piece of host memory, of any number of bytes: nothing is rounded beyond what the
// caller asks for, so that parts which add up to the arena fill it to the last byte.
//
//   HostArena arena(100 * 256);
//   const auto part = arena.take(256);   // where it begins; nothing where no gap is long enough
//   arena.give_back(*part, 256);
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace zeroshard {

// Counts bytes only; whose memory it is, is somebody else's business. Any thread may use it.
class HostArena {
 public:
  explicit HostArena(std::int64_t bytes);

  // The first gap that is long enough, so that states which go and come back find their old place.
  std::optional<std::int64_t> take(std::int64_t bytes);
  void give_back(std::int64_t begin, std::int64_t bytes);
  std::int64_t free_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::int64_t> gaps_;  // bytes by where they begin; neighbours are joined
};

}  // namespace zeroshard
