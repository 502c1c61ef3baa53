// Usage errors as one sentence with the nearest thing that exists.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "zeroshard/base/error.h"

namespace zeroshard::cli {

inline constexpr int kUsageExitCode = 2;

class UsageError : public Error {
 public:
  explicit UsageError(Fault fault) : Error("usage", std::move(fault), kUsageExitCode) {}
};

// `[usage] unknown option: --stric; did you mean --strict? See zeroshard config check --help`
std::string usage_message(const CLI::App& app, const CLI::ParseError& error, int argc,
                          const char* const* argv);

// "zeroshard config check"
std::string full_name(const CLI::App& app);

// The same sentence for a word that is none of the app's verbs.
UsageError no_such_verb(const CLI::App& parent, const std::string& word);

// Option names of an app and of those around it, as typed: "--strict", "-h".
std::vector<std::string> option_names(const CLI::App& app);
std::vector<std::string> verb_names(const CLI::App& app);

}  // namespace zeroshard::cli
