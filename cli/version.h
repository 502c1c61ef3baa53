// `--version`: ours, the commit, and the torch, MPI and CUDA that this build found.
#pragma once

#include <string>

namespace zeroshard::cli {

std::string version_text();

}  // namespace zeroshard::cli
