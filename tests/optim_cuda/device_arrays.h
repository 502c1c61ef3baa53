// Memory of the first accelerator, to and from the host; and the fixture that skips without one.
#pragma once

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/buffer.h"

namespace zeroshard::testing {

inline constexpr Device kFirst{DeviceKind::cuda, 0};

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (load_accelerators() > 0) return;
    GTEST_SKIP() << "needs an accelerator: " << missing_reason(DeviceKind::cuda);
  }
};

// A copy of host bytes on the device, `shift` bytes behind a 256-byte boundary.
class DeviceBytes {
 public:
  DeviceBytes(const void* from, std::size_t bytes, std::int64_t shift = 0)
      : bytes_(static_cast<std::int64_t>(bytes)),
        shift_(shift),
        memory_(kFirst, bytes_ + shift + 1) {
    if (bytes_ == 0) return;
    const Stream stream = Stream::current(kFirst);
    copy_bytes(stream, data(), kFirst, from, kCpu, bytes_);
    stream.synchronize();
  }

  void* data() const { return static_cast<std::byte*>(memory_.data()) + shift_; }
  void copy_to(void* host) const {
    const Stream stream = Stream::current(kFirst);
    copy_bytes(stream, host, kCpu, data(), kFirst, bytes_);
    stream.synchronize();
  }

 private:
  std::int64_t bytes_, shift_;
  Buffer memory_;
};

template <typename T>
DeviceBytes on_device(const std::vector<T>& values, std::int64_t shift = 0) {
  return {values.data(), values.size() * sizeof(T), shift * static_cast<std::int64_t>(sizeof(T))};
}

}  // namespace zeroshard::testing
