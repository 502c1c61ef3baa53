// `zeroshard run`: starts a program on several ranks, or joins the ranks that are there.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/process.h"
#include "cli/start_ranks.h"

namespace zeroshard::cli {
namespace {

struct RunArguments {
  RankArguments ranks;
  std::vector<std::string> command;
};

int run_program(const RunArguments& arguments, const std::string& log_level) {
  const Launch launch = launch_of("run", arguments.ranks);
  find_program(arguments.command.front(), "give its path, or put it on the PATH");
  pass_on_log_level(log_level);
  start_ranks(arguments.ranks, launch, arguments.command);
}

}  // namespace

void add_run_verb(CommandLine& line) {
  CLI::App* verb =
      add_verb(line.app, "run", "Run PROGRAM [ARGUMENTS...] on several ranks, through mpirun",
               "zeroshard run --ranks 4 ./train --steps 100");
  const auto arguments = std::make_shared<RunArguments>();
  verb->fallthrough(false);  // what stands behind the program is the program's
  verb->prefix_command();
  add_rank_options(*verb, arguments->ranks);
  verb->callback([&line, verb, arguments] {
    arguments->command = verb->remaining();
    if (arguments->command.empty()) throw CLI::RequiredError("PROGRAM");
    if (std::ranges::find(arguments->command, ":") != arguments->command.end()) {
      throw CLI::ValidationError("\":\" alone means another program to mpirun");
    }
    line.action = [&line, arguments] { return run_program(*arguments, line.log_level); };
  });
}

// What mpirun starts on each rank. Not for people, so no help shows it.
void add_guard_verb(CommandLine& line) {
  CLI::App* verb = line.app.add_subcommand("guard", "Run one rank's program and watch over it");
  verb->group("");
  verb->prefix_command();
  verb->callback([&line, verb] {
    const std::vector<std::string> command = verb->remaining();
    if (command.empty()) throw CLI::RequiredError("PROGRAM");
    line.action = [command] { return guard(command); };
  });
}

}  // namespace zeroshard::cli
