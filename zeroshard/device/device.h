// One device of this process: the CPU, or one accelerator.
#pragma once

#include <string>

#include "zeroshard/device/kind.h"

namespace zeroshard {

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  // there is one CPU, with index 0

  bool operator==(const Device&) const = default;
};

inline constexpr Device kCpu{};
// The id of the CPU's current stream, whichever thread calls; its side streams count from 1.
inline constexpr int kCallingThreadId = 0;

// "cpu", "cuda:0"
std::string name_of(Device device);

}  // namespace zeroshard
