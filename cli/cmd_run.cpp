// `zeroshard run`: starts a program on several ranks, or joins the ranks that are there. Python
// programs get ranks of their own making (run_ranks.py), all others mpirun's.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/app.h"
#include "cli/find_python.h"
#include "cli/process.h"
#include "cli/run_ranks.h"
#include "cli/start_ranks.h"

namespace zeroshard::cli {
namespace {

struct RunArguments {
  std::optional<int> ranks;
  std::optional<int> num_gpus;  // the same under DeepSpeed's name
  std::string hostfile;
  std::optional<int> nodes;
  std::optional<int> node_rank;
  std::string master_addr;
  std::optional<int> master_port;
  bool is_module = false;
  std::vector<std::string> command;
};

bool is_python(const RunArguments& arguments) {
  return arguments.is_module || arguments.command.front().ends_with(".py");
}

// Throws where the words contradict each other or ask for nothing.
void check_words(const RunArguments& arguments) {
  if (arguments.ranks && arguments.num_gpus) {
    throw RunError({.what = "--ranks and --num_gpus mean the same",
                    .value = fmt::format("{} and {}", *arguments.ranks, *arguments.num_gpus),
                    .remedy = "give one of them"});
  }
  const auto ranks = arguments.ranks ? arguments.ranks : arguments.num_gpus;
  if (ranks && (*ranks < 1 || *ranks > 65536)) {
    throw RunError({.what = arguments.ranks ? "--ranks is no number of ranks"
                                            : "--num_gpus is no number of ranks",
                    .value = std::to_string(*ranks),
                    .remedy = "give 1 or more"});
  }
  const int nodes = arguments.nodes.value_or(1);
  if (nodes < 1) {
    throw RunError({.what = "--nnodes is no number of hosts",
                    .value = std::to_string(nodes),
                    .remedy = "give 1 or more"});
  }
  const int node_rank = arguments.node_rank.value_or(0);
  if (node_rank < 0 || node_rank >= nodes) {
    throw RunError({.what = "--node_rank is none of the hosts",
                    .value = fmt::format("{} of {}", node_rank, nodes),
                    .remedy = "they count from 0; --nnodes says how many"});
  }
}

RankArguments rank_arguments(const RunArguments& arguments) {
  return {.ranks = arguments.ranks ? arguments.ranks : arguments.num_gpus,
          .hostfile = arguments.hostfile};
}

void check_for_mpirun(const RunArguments& arguments) {
  if (!arguments.nodes && !arguments.node_rank && arguments.master_addr.empty() &&
      !arguments.master_port) {
    return;
  }
  throw RunError(
      {.what = "--nnodes, --node_rank, --master_addr and --master_port are for Python programs",
       .value = arguments.command.front(),
       .remedy = "name the hosts of other programs with --hostfile"});
}

void check_for_python(const RunArguments& arguments) {
  const std::string& script = arguments.command.front();
  std::error_code ignored;
  if (!arguments.is_module && !std::filesystem::is_regular_file(script, ignored)) {
    throw RunError({.what = "no such script", .value = script, .remedy = "give its path"});
  }
  if (!arguments.hostfile.empty()) {
    throw RunError({.what = "--hostfile is for programs that mpirun starts",
                    .value = script,
                    .remedy = "zs-deepspeed --hostfile FILE reaches the hosts of a Python program, "
                              "or start each host's part with --nnodes and --node_rank"});
  }
}

[[noreturn]] void run_python(const RunArguments& arguments, const Launch& launch) {
  check_for_python(arguments);
  const std::string python = find_python();
  become(run_ranks_command({.python = python,
                            .run_ranks = find_run_ranks(python),
                            .ranks = rank_count(rank_arguments(arguments), launch),
                            .nodes = arguments.nodes.value_or(1),
                            .node_rank = arguments.node_rank.value_or(0),
                            .master_addr = arguments.master_addr,
                            .master_port = arguments.master_port.value_or(0),
                            .is_module = arguments.is_module,
                            .launch = launch,
                            .command = arguments.command}));
}

int run_program(const RunArguments& arguments, const std::string& log_level) {
  check_words(arguments);
  const RankArguments ranks = rank_arguments(arguments);
  const Launch launch = launch_of("run", ranks);
  pass_on_log_level(log_level);
  if (is_python(arguments)) run_python(arguments, launch);
  check_for_mpirun(arguments);
  find_program(arguments.command.front(), "give its path, or put it on the PATH");
  start_ranks(ranks, launch, arguments.command);
}

void add_run_options(CLI::App& verb, RunArguments& arguments) {
  const auto number = [&](const char* name, std::optional<int>& value, const char* help) {
    verb.add_option(name, value, help)->type_name("N");
  };
  number("--ranks", arguments.ranks,
         "How many ranks to start (default 1). Under mpirun or srun: not needed");
  number("--num_gpus", arguments.num_gpus, "The same");
  verb.add_option("--hostfile", arguments.hostfile,
                  "Start them on these hosts: lines of NAME slots=N, reached by ssh")
      ->type_name("FILE");
  verb.add_flag("-m,--module", arguments.is_module, "PROGRAM is a Python module");
  number("--nnodes", arguments.nodes, "Python: hosts on which this is called, each with --ranks");
  number("--node_rank", arguments.node_rank, "Python: which of them this is, from 0");
  verb.add_option("--master_addr", arguments.master_addr, "Python: the host of --node_rank 0")
      ->type_name("HOST");
  number("--master_port", arguments.master_port,
         "Python: a free port there (one host: any free one is taken)");
}

}  // namespace

void add_run_verb(CommandLine& line) {
  CLI::App* verb = add_verb(line.app, "run", "Run PROGRAM [ARGUMENTS...] on several ranks",
                            "zeroshard run --ranks 4 train.py --steps 100\n"
                            "  zeroshard run --ranks 4 ./train --steps 100\n"
                            "A Python program finds ZeroShard as `import deepspeed`. All others "
                            "are started through mpirun.");
  const auto arguments = std::make_shared<RunArguments>();
  verb->fallthrough(false);  // what stands behind the program is the program's
  verb->prefix_command();
  add_run_options(*verb, *arguments);
  verb->callback([&line, verb, arguments] {
    arguments->command = verb->remaining();
    if (arguments->command.empty()) throw CLI::RequiredError("PROGRAM");
    if (std::ranges::find(arguments->command, ":") != arguments->command.end() &&
        !is_python(*arguments)) {
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
  const auto one_stream = std::make_shared<bool>(false);
  verb->add_flag("--one-stream", *one_stream, "Standard output goes to standard error");
  verb->callback([&line, verb, one_stream] {
    const std::vector<std::string> command = verb->remaining();
    if (command.empty()) throw CLI::RequiredError("PROGRAM");
    line.action = [command, one_stream] {
      if (*one_stream) dup2(STDERR_FILENO, STDOUT_FILENO);
      return guard(command);
    };
  });
}

}  // namespace zeroshard::cli
