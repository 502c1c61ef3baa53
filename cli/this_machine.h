// What can be told of this machine without torch and without a driver's tool.
#pragma once

#include <string_view>
#include <vector>

#include "zeroshard/setup/visible_gpus.h"

namespace zeroshard::cli {

// Those that CUDA shows here (CUDA_VISIBLE_DEVICES), as the driver's library names them, or the
// kernel where there is no such library. Empty where there are none.
std::vector<LocalGpu> gpus_here();

// Those of them that train may take with `device` ("cpu", "cuda", "cuda:1", or "" where nobody
// says: then a torch without CUDA takes the CPU).
std::vector<LocalGpu> gpus_for(std::string_view device);

// How many ranks train starts on this machine where nobody says: one for each of these GPUs.
int usual_ranks(std::string_view device);

}  // namespace zeroshard::cli
