// What can be told of this machine without torch and without a driver's tool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zeroshard::cli {

// As the kernel's driver names them; empty where there are none.
std::vector<std::string> gpus_here();
// All memory of the first one, as its driver counts it; nothing where no driver says.
std::optional<std::int64_t> gpu_memory_here();

}  // namespace zeroshard::cli
