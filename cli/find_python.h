// The Python that runs scripts, and our package for it.
#pragma once

#include <string>

namespace zeroshard::cli {

// ZEROSHARD_PYTHON, else the one beside this program (both are in the same environment then), else
// python3 on the PATH. Throws ConfigError where there is none.
std::string find_python();

// The package's run_ranks.py: of the environment or source tree that this program lies in, else of
// the package that `python` would import. Throws RunError where it has none.
std::string find_run_ranks(const std::string& python);

}  // namespace zeroshard::cli
