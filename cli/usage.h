// Usage errors as one sentence with the nearest thing that exists.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace zeroshard::cli {

inline constexpr int kUsageExitCode = 2;

// `[usage] unknown option: --stric; did you mean --strict? See zeroshard config check --help`
std::string usage_message(const CLI::App& app, const CLI::ParseError& error, int argc,
                          const char* const* argv);

// Option names of an app and of those around it, as typed: "--strict", "-h".
std::vector<std::string> option_names(const CLI::App& app);
std::vector<std::string> verb_names(const CLI::App& app);

}  // namespace zeroshard::cli
