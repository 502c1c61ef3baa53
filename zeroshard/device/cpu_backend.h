// The CPU as a device: the calling thread, side threads that work in order, plain memory.
#pragma once

#include <memory>

#include "zeroshard/device/backend.h"

namespace zeroshard {

std::unique_ptr<DeviceBackend> make_cpu_backend();

}  // namespace zeroshard
