// `zeroshard env`: versions, devices, limits, and what of them will hurt.
#include <memory>
#include <string>

#include "cli/app.h"
#include "cli/build_info.h"
#include "cli/env_report.h"
#include "cli/output.h"
#include "cli/print_env.h"

namespace zeroshard::cli {
namespace {

struct EnvArguments {
  std::string program;
  bool json = false;
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
  verb->callback(
      [&line, arguments] { line.action = [arguments] { return show_env(*arguments); }; });
}

}  // namespace zeroshard::cli
