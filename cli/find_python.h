// The Python that runs scripts, and our package for it.
#pragma once

#include <string>

namespace zeroshard::cli {

// ZEROSHARD_PYTHON, else the one beside this program (both are in the same environment then), else
// python3 on the PATH. Throws ConfigError where there is none.
std::string find_python();

// Our package: of the environment or build folder that this program lies in, else the one that
// `python` would import. Throws RunError where there is none.
std::string find_package(const std::string& python);

// Its run_ranks.py.
std::string find_run_ranks(const std::string& python);

}  // namespace zeroshard::cli
