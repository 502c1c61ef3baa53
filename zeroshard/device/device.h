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

// "cpu", "cuda:0"
std::string name_of(Device device);

}  // namespace zeroshard
