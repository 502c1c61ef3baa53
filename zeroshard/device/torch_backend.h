// torch's devices as a backend. Included by accelerators.cpp alone.
#pragma once

#include <memory>

#include "zeroshard/device/backend.h"

namespace zeroshard {

// For after torch's CUDA half is loaded. Throws ConfigError where torch cannot start it.
std::unique_ptr<DeviceBackend> make_torch_backend();

}  // namespace zeroshard
