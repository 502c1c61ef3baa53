// `zeroshard generate`: looks for mistakes, then becomes the program that runs the model.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/process.h"
#include "cli/start_ranks.h"
#include "cli/train_arguments.h"
#include "cli/train_checks.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/launch.h"

namespace zeroshard::cli {
namespace {

int generate(const GenerateOptions& options, const std::string& log_level) {
  const Launch launch = read_launch();
  if (launch.world_size > 1) {
    throw ConfigError(
        {.what = "zeroshard generate runs on one rank",
         .value = fmt::format("{} of them by {}", launch.world_size, name_of(launch.launcher)),
         .remedy = "call it by itself"});
  }
  check_generation(options);
  pass_on_log_level(log_level);
  become(trainer_command("generate", words_of(options)));
}

}  // namespace

void add_generate_verb(CommandLine& line) {
  CLI::App* verb = add_verb(line.app, "generate", "Let a trained gpt go on from a text",
                            "zeroshard generate runs/small --prompt \"Once upon\" --count 100");
  const auto options = std::make_shared<GenerateOptions>();
  add_generate_options(*verb, *options);
  verb->callback([&line, options] {
    line.action = [&line, options] { return generate(*options, line.log_level); };
  });
}

}  // namespace zeroshard::cli
