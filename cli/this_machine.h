// What can be told of this machine without torch and without a driver's tool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zeroshard::cli {

// As the kernel's driver names them; empty where there are none.
std::vector<std::string> gpus_here();

}  // namespace zeroshard::cli
