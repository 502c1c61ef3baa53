#include "cli/start_ranks.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/build_info.h"
#include "cli/conduct.h"
#include "cli/mpirun.h"
#include "cli/process.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"

namespace zeroshard::cli {
namespace {

void refuse_torchrun(std::string_view verb, const Launch& launch) {
  if (launch.launcher != Launcher::torchrun || launch.world_size == 1) return;
  throw ConfigError(
      {.what = fmt::format("zeroshard {} starts its ranks itself", verb),
       .value = fmt::format("called by torchrun as rank {} of {}", launch.rank, launch.world_size),
       .remedy = fmt::format("call it once, without torchrun: zeroshard {} --ranks {} ...", verb,
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

std::string find_mpirun() {
  return find_program("mpirun", "install Open MPI (Debian: openmpi-bin)");
}

void check_hostfile(const std::string& hostfile) {
  std::error_code ignored;
  if (hostfile.empty() || std::filesystem::is_regular_file(hostfile, ignored)) return;
  throw ConfigError({.what = "no such hostfile",
                     .value = hostfile,
                     .remedy = "write one line per host: NAME slots=RANKS"});
}

// Whether both end in the same terminal, pipe or file. mpirun has a pipe for each and empties them
// in any order, so there the lines of a rank would change places.
bool outputs_are_one() {
  struct stat out {
  }, error{};
  return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &error) == 0 &&
         out.st_dev == error.st_dev && out.st_ino == error.st_ino;
}

// The command itself where no ranks are to be started.
std::vector<std::string> launch_command(const RankArguments& arguments, const Launch& launch,
                                        const std::vector<std::string>& command,
                                        bool one_stream = false) {
  if (launch.world_size > 1) return command;
  check_hostfile(arguments.hostfile);
  const int ranks = rank_count(arguments, launch);
  if (ranks == 1 && arguments.hostfile.empty()) return command;
  return mpirun_command({.mpirun = find_mpirun(),
                         .ranks = ranks,
                         .hostfile = arguments.hostfile,
                         .exports = variables_to_export(),
                         .guardian = own_program(),
                         .one_stream = one_stream,
                         .command = command});
}

}  // namespace

void add_rank_options(CLI::App& verb, RankArguments& arguments) {
  verb.add_option("--ranks", arguments.ranks,
                  "How many ranks to start (default: one for each GPU). Under mpirun or srun: not "
                  "needed")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  verb.add_option("--hostfile", arguments.hostfile,
                  "Start them on these hosts: lines of NAME slots=N, reached by ssh")
      ->type_name("FILE");
}

Launch launch_of(std::string_view verb, const RankArguments& arguments) {
  const Launch launch = read_launch();
  refuse_torchrun(verb, launch);
  if (launch.world_size > 1) check_number(arguments.ranks, launch);
  return launch;
}

std::string missing_for_ranks() {
  if (std::string_view(build_info::kMpi) == "none") return "this build has no MPI";
  try {
    find_mpirun();
    return {};
  } catch (const ConfigError&) {
    return "mpirun, which starts ranks, is not installed (Debian: openmpi-bin)";
  }
}

int rank_count(const RankArguments& arguments, const Launch& launch) {
  return launch.world_size > 1 ? launch.world_size : arguments.ranks.value_or(1);
}

void pass_on_log_level(const std::string& log_level) {
  if (log_level.empty()) return;
  const EnvVarInfo& variable = all_env_vars()[static_cast<std::size_t>(EnvVar::kLog)];
  setenv(variable.name, log_level.c_str(), 1);
}

std::vector<std::string> trainer_command(const std::string& verb,
                                         const std::vector<std::string>& words) {
  const std::string program = find_program(
      trainer_path(), "this build has no torch; configure it with torch, see README.md");
  std::vector<std::string> command{program, verb};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

void start_ranks(const RankArguments& arguments, const Launch& launch,
                 const std::vector<std::string>& command) {
  become(launch_command(arguments, launch, command));
}

int run_ranks_to_end(const RankArguments& arguments, const Launch& launch,
                     const std::vector<std::string>& command) {
  return conduct(launch_command(arguments, launch, command, outputs_are_one()));
}

int conduct_ranks(const RankArguments& arguments, const Launch& launch,
                  const std::vector<std::string>& command) {
  const std::vector<std::string> words =
      launch_command(arguments, launch, command, outputs_are_one());
  if (words == command) {
    std::signal(SIGUSR1, SIG_IGN);  // until the program listens to it
    become(words);
  }
  return conduct(words);
}

}  // namespace zeroshard::cli
