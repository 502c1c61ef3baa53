// Host memory straight from the kernel, of the exact size (in pages), on huge pages where there are
// some, and not inherited by forked children: a data loader's processes would otherwise count it
// again, and pinned pages would be copied for them.
//
//   HostMapping mapping(bytes, threads);
//   const std::string why_not = mapping.pin(accelerator);   // "" where it is pinned now
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "zeroshard/device/device.h"

namespace zeroshard {

class HostMapping {
 public:
  // Every page is touched now, by `threads` threads: later use finds it there, and lies on the
  // memory of those who touched it. Throws StorageError where the kernel has no room for it.
  HostMapping(std::int64_t bytes, int threads);
  ~HostMapping();
  HostMapping(const HostMapping&) = delete;
  HostMapping& operator=(const HostMapping&) = delete;

  // Registers all of it with the accelerator's driver, until the end. The answer is "", or the
  // driver's words for why it cannot; the memory can be used all the same.
  std::string pin(Device accelerator);
  bool pinned() const { return pinned_for_ != kCpu; }

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::size_t mapped_ = 0;  // whole pages
  Device pinned_for_ = kCpu;
};

}  // namespace zeroshard
