// What kind of device memory lies on. Free of torch, so that messages about memory can be too.
#pragma once

#include <string_view>

namespace zeroshard {

enum class DeviceKind { cpu, cuda };

constexpr std::string_view name_of(DeviceKind kind) {
  return kind == DeviceKind::cpu ? "cpu" : "cuda";
}

}  // namespace zeroshard
