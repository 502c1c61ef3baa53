// The verbs and options of `zeroshard`, as one CLI11 app.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace zeroshard::cli {

// What the chosen verb will do once all arguments are read; returns the exit code.
using Action = std::function<int()>;

// The app, and the action that parsing its arguments has chosen.
struct CommandLine {
  CLI::App app{"ZeRO sharded training: fits, fast, and right."};
  Action action;
  std::string log_level;  // --log-level, as given
};

std::unique_ptr<CommandLine> make_command_line();

// Each verb adds itself; one file per verb.
void add_config_verb(CommandLine& line);
void add_plan_verb(CommandLine& line);
void add_report_verb(CommandLine& line);
void add_train_verb(CommandLine& line);
void add_generate_verb(CommandLine& line);
void add_checkpoint_verb(CommandLine& line);
void add_run_verb(CommandLine& line);
void add_env_verb(CommandLine& line);
void add_guard_verb(CommandLine& line);
void add_completion_verb(CommandLine& line);
void add_help_verb(CommandLine& line);

// A verb with an example below its help. What it does is set by `run` when it is the one called.
CLI::App* add_verb(CLI::App& parent, const char* name, const char* summary, const char* example);

}  // namespace zeroshard::cli
