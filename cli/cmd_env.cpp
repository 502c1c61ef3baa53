// `zeroshard env`: versions, devices, limits, and what of them will hurt.
#include <memory>
#include <string>

#include "cli/app.h"
#include "cli/build_info.h"
#include "cli/env_report.h"
#include "cli/output.h"
#include "cli/print_env.h"
#include "cli/start_ranks.h"
#include "cli/this_machine.h"
#include "zeroshard/base/cpu_limit.h"

namespace zeroshard::cli {
namespace {

struct EnvArguments {
  std::string program;
  bool json = false;
  bool measure = false;
  std::string device;
  RankArguments ranks;
};

BuildVersions build_versions() {
  using namespace build_info;
  return {.zeroshard = kVersion,
          .commit = kCommit,
          .torch = kTorch,
          .torch_cuda = kTorchCuda,
          .mpi = kMpi,
          .cuda_toolkit = kCuda};
}

// As many as train would have on this machine, but where there is no GPU two, if there are CPUs for
// them, so that collectives are measured.
int ranks_to_measure(const std::string& device) {
  const int gpus = static_cast<int>(gpus_for(device).size());
  if (gpus > 0) return ranks_for_gpus(device, gpus);
  return usable_cpus() > 1 ? 2 : 1;
}

int measure_env(EnvArguments arguments) {
  const Launch launch = launch_of("env", arguments.ranks);
  if (!arguments.ranks.ranks && launch.world_size == 1) {
    arguments.ranks.ranks = ranks_to_measure(arguments.device);
  }
  std::vector<std::string> words;
  if (!arguments.device.empty()) words.push_back("--device=" + arguments.device);
  if (arguments.json) words.emplace_back("--json");
  return conduct_ranks(arguments.ranks, launch, trainer_command("measure", words));
}

int show_env(const EnvArguments& arguments) {
  const EnvReport report = collect_env(build_versions(), arguments.program);
  print(arguments.json ? env_json(report) : env_text_page(report));
  return 0;
}

}  // namespace

void add_env_verb(CommandLine& line) {
  CLI::App* verb =
      add_verb(line.app, "env", "Versions, devices, limits, and what of them will hurt",
               "zeroshard env --json");
  auto arguments = std::make_shared<EnvArguments>();
  verb->add_flag("--json", arguments->json, "Print JSON");
  verb->add_option("--program", arguments->program,
                   "Tell which libtorch this program loads (default: zeroshard-train beside "
                   "zeroshard); it is not started")
      ->type_name("FILE");
  CLI::Option* measure = verb->add_flag(
      "--measure", arguments->measure,
      "Measure how fast this machine is, in some ten seconds, and keep it for plans");
  verb->add_option("--device", arguments->device, "Of --measure: cpu or cuda")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->needs(measure);
  add_rank_options(*verb, arguments->ranks);
  verb->callback([&line, arguments] {
    line.action = [arguments] {
      return arguments->measure ? measure_env(*arguments) : show_env(*arguments);
    };
  });
}

}  // namespace zeroshard::cli
