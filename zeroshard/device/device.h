// One device of this process: the CPU, or one accelerator. Free of torch, so that messages about
// memory can be too.
#pragma once

#include <string>
#include <string_view>

namespace zeroshard {

enum class DeviceKind { cpu, cuda };

constexpr std::string_view name_of(DeviceKind kind) {
  return kind == DeviceKind::cpu ? "cpu" : "cuda";
}

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  // there is one CPU, with index 0

  bool operator==(const Device&) const = default;
};

inline constexpr Device kCpu{};
// The id of the CPU's current stream, whichever thread calls; its side streams count from 1.
inline constexpr int kCallingThreadId = 0;

// The names are like "cpu" and "cuda:0".
std::string name_of(Device device);

}  // namespace zeroshard
