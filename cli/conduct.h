// A launcher under way, and this process between it and the terminal: mpirun ends its ranks when it
// is interrupted, and a training run wants to finish its step first.
#pragma once

#include <string>
#include <vector>

namespace zeroshard::cli {

// Runs the command to its end and returns its exit code. SIGINT and SIGTERM reach the ranks as
// SIGUSR2 and SIGALRM, which mpirun hands on: they finish their step and end, and the result is 130
// or 143. The second one ends them at once. SIGUSR1 is handed on as it is. A rank or launcher that
// was killed is 1, as every failure.
int conduct(const std::vector<std::string>& command);

}  // namespace zeroshard::cli
