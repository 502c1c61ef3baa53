// `zeroshard run`: starts a program on several ranks, or joins the ranks that are there.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/mpirun.h"
#include "cli/process.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/launch.h"

namespace zeroshard::cli {
namespace {

struct RunArguments {
  std::optional<int> ranks;
  std::string hostfile;
  std::vector<std::string> command;
};

void refuse_torchrun(const Launch& launch) {
  if (launch.launcher != Launcher::torchrun || launch.world_size == 1) return;
  throw ConfigError(
      {.what = "zeroshard run starts its ranks itself",
       .value = fmt::format("called by torchrun as rank {} of {}", launch.rank, launch.world_size),
       .remedy = fmt::format("call it once, without torchrun: zeroshard run --ranks "
                             "{} ...",
                             launch.world_size)});
}

void check_number(const std::optional<int>& ranks, const Launch& launch) {
  if (!ranks || *ranks == launch.world_size) return;
  throw ConfigError(
      {.what = fmt::format("--ranks differs from what {} has started", name_of(launch.launcher)),
       .value = fmt::format("--ranks {}, {} ranks", *ranks, launch.world_size),
       .remedy = "leave out --ranks"});
}

// What a program on another host should find as it is here; ssh brings nothing.
std::vector<std::string> variables_to_export() {
  return env_names_with_prefixes({"ZEROSHARD_", "OMP_", "MKL_", "NCCL_", "TORCH_", "HF_", "PATH",
                                  "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"});
}

void check_hostfile(const std::string& hostfile) {
  std::error_code ignored;
  if (hostfile.empty() || std::filesystem::is_regular_file(hostfile, ignored)) return;
  throw ConfigError({.what = "no such hostfile",
                     .value = hostfile,
                     .remedy = "write one line per host: NAME slots=RANKS"});
}

int run_program(const RunArguments& arguments) {
  const Launch launch = read_launch();
  refuse_torchrun(launch);
  find_program(arguments.command.front(), "give its path, or put it on the PATH");
  if (launch.world_size > 1) {
    check_number(arguments.ranks, launch);
    become(arguments.command);
  }
  check_hostfile(arguments.hostfile);
  const int ranks = arguments.ranks.value_or(1);
  if (ranks == 1 && arguments.hostfile.empty()) become(arguments.command);
  become(mpirun_command({.mpirun = find_program("mpirun", "install Open MPI (Debian: openmpi-bin)"),
                         .ranks = ranks,
                         .hostfile = arguments.hostfile,
                         .exports = variables_to_export(),
                         .guardian = own_program(),
                         .command = arguments.command}));
}

}  // namespace

void add_run_verb(CommandLine& line) {
  CLI::App* verb =
      add_verb(line.app, "run", "Run PROGRAM [ARGUMENTS...] on several ranks, through mpirun",
               "zeroshard run --ranks 4 ./train --steps 100");
  const auto arguments = std::make_shared<RunArguments>();
  verb->fallthrough(false);  // what stands behind the program is the program's
  verb->prefix_command();
  verb->add_option("--ranks", arguments->ranks,
                   "How many ranks to start (default 1). Under mpirun or srun: not needed")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  verb->add_option("--hostfile", arguments->hostfile,
                   "Start them on these hosts: lines of NAME slots=N, reached by ssh")
      ->type_name("FILE");
  verb->callback([&line, verb, arguments] {
    arguments->command = verb->remaining();
    if (arguments->command.empty()) throw CLI::RequiredError("PROGRAM");
    if (std::ranges::find(arguments->command, ":") != arguments->command.end()) {
      throw CLI::ValidationError("\":\" alone means another program to mpirun");
    }
    line.action = [arguments] { return run_program(*arguments); };
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
