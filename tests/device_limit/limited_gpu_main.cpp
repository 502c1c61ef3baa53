// With the stand-in for the driver: a limit is where torch's allocator reads it by the time that
// torch's CUDA half is loaded, which then finds no GPU.
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/device/cuda_driver.h"
#include "zeroshard/setup/choose_device.h"

namespace zeroshard {
namespace {

int complain(const std::string& about) {
  fmt::print(stderr, "{}\n", about);
  return 1;
}

int run() {
  if (device_totals() != std::vector<std::int64_t>{std::int64_t{24} << 30}) {
    return complain("the stand-in's memory was not seen");
  }
  try {
    choose_device("cuda", 3, std::int64_t{6} << 30);
    return complain("torch has found a GPU");
  } catch (const ConfigError&) {
  }
  const std::string said = env_text(EnvVar::kTorchAllocator).value_or("nothing");
  const std::string wanted = "expandable_segments:True,per_process_memory_fraction:0.25";
  return said.starts_with(wanted) ? 0 : complain(said);
}

}  // namespace
}  // namespace zeroshard

int main() { return zeroshard::run(); }
