// Ranks of a program: those that mpirun or srun have started already, or new ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "zeroshard/base/launch.h"

namespace zeroshard::cli {

struct RankArguments {
  std::optional<int> ranks;
  std::string hostfile;
};

// --ranks and --hostfile. The arguments must live as long as the verb.
void add_rank_options(CLI::App& verb, RankArguments& arguments);

// The launch that this process is part of. Throws ConfigError under torchrun, whose ranks cannot
// find each other here, and where --ranks is not what the launcher has started.
Launch launch_of(std::string_view verb, const RankArguments& arguments);

// Why this program cannot start several ranks on this machine; "" where it can.
std::string missing_for_ranks();

// As many as will run.
int rank_count(const RankArguments& arguments, const Launch& launch);

// So that the ranks, on all hosts, log as this program was told to. Empty: as they are.
void pass_on_log_level(const std::string& log_level);

// `zeroshard-train VERB WORDS...`. Throws ConfigError in a build that has no such program.
std::vector<std::string> trainer_command(const std::string& verb,
                                         const std::vector<std::string>& words);

// Becomes the command, on every rank.
[[noreturn]] void start_ranks(const RankArguments& arguments, const Launch& launch,
                              const std::vector<std::string>& command);

// The same for a program that finishes its step when it is asked to stop: see conduct.h.
int conduct_ranks(const RankArguments& arguments, const Launch& launch,
                  const std::vector<std::string>& command);

// The same, and this process stays also where there is one rank.
int run_ranks_to_end(const RankArguments& arguments, const Launch& launch,
                     const std::vector<std::string>& command);

}  // namespace zeroshard::cli
