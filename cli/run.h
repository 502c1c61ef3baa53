// The whole command line as one call, so that main() need not know CLI11.
#pragma once

namespace zeroshard::cli {

// Parses and does what was asked; returns the exit code. Errors of ours are thrown.
int run(int argc, const char* const* argv);

}  // namespace zeroshard::cli
