// What a tier gives memory by: one class each. A disk tier will be one more.
#pragma once

#include <cstdint>

#include "zeroshard/device/buffer.h"

namespace zeroshard {

struct TierBuffer {
  Buffer buffer;
  bool pinned = false;  // host memory that the device copies from and to without the CPU's help
};

class TierMemory {
 public:
  virtual ~TierMemory() = default;
  TierMemory() = default;
  TierMemory(const TierMemory&) = delete;
  TierMemory& operator=(const TierMemory&) = delete;

  // `bytes` is a whole number of buffers (256 bytes); 0 is nothing. Throws StorageError.
  virtual TierBuffer allocate(std::int64_t bytes) = 0;
};

class DeviceTier final : public TierMemory {
 public:
  explicit DeviceTier(Device device) : device_(device) {}
  TierBuffer allocate(std::int64_t bytes) override { return {Buffer(device_, bytes)}; }

 private:
  const Device device_;
};

}  // namespace zeroshard
