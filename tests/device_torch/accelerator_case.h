// The first real accelerator as a case of the suites that run on every device.
#pragma once

#include <gtest/gtest.h>

#include "tests/device/device_case.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/backend.h"
#include "zeroshard/device/buffer.h"

namespace zeroshard {

inline constexpr Device kFirst{DeviceKind::cuda, 0};

inline void load_or_skip() {
  if (load_accelerators() > 0) return;
  GTEST_SKIP() << "needs an accelerator: " << missing_reason(DeviceKind::cuda);
}

// 64 GiB within the device's own memory: more than 25 ms at 5 TB/s, read and write.
inline void occupy(const Stream& stream) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 28;
  // Never destroyed: the driver may be gone by the time static variables are.
  static const Buffer& from = *new Buffer(kFirst, kBytes);
  static const Buffer& to = *new Buffer(kFirst, kBytes);
  for (int i = 0; i < 256; ++i) {
    copy_bytes(stream, to.data(), kFirst, from.data(), kFirst, kBytes);
  }
}

inline DeviceCase first_accelerator() { return {"cuda", load_or_skip, kFirst, occupy}; }

}  // namespace zeroshard
