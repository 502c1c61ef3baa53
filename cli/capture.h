// What another program prints, within a time limit.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace zeroshard::cli {

// Runs the command (the first word is a path) without input and returns its standard output; errors
// it prints are dropped. Empty where it cannot be started, fails, or is not done in time; it is
// then killed.
std::string captured_output(const std::vector<std::string>& command,
                            std::chrono::milliseconds limit);

}  // namespace zeroshard::cli
