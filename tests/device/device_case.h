// A device that a suite of tests runs on.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "zeroshard/device/stream.h"

namespace zeroshard {

struct DeviceCase {
  std::string name;
  // Brings the device in; may skip the test.
  std::function<void()> load;
  Device device;
  // Gives the stream some 30 ms of work, and returns at once.
  std::function<void(const Stream&)> occupy;
};

inline void PrintTo(const DeviceCase& device_case, std::ostream* out) { *out << device_case.name; }

using Bytes = std::vector<unsigned char>;

}  // namespace zeroshard
