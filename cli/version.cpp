#include "cli/version.h"

#include <fmt/format.h>

#include "cli/build_info.h"

namespace zeroshard::cli {

std::string version_text() {
  using namespace build_info;
  const std::string built_for = kTorchCuda;
  return fmt::format("zeroshard {} (commit {})\ntorch {}{}\nMPI   {}\nCUDA  {}", kVersion, kCommit,
                     kTorch, built_for.empty() ? "" : fmt::format(", built for CUDA {}", built_for),
                     kMpi, kCuda);
}

}  // namespace zeroshard::cli
