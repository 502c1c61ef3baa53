// `zeroshard train`: looks for mistakes, then becomes the training program on every rank.
#include <memory>
#include <string>

#include "cli/app.h"
#include "cli/start_ranks.h"
#include "cli/train_arguments.h"
#include "cli/train_checks.h"
#include "cli/usage.h"

namespace zeroshard::cli {
namespace {

struct TrainArguments {
  RankArguments ranks;
  TrainOptions options;
};

int train(const TrainArguments& arguments, const std::string& log_level) {
  const Launch launch = launch_of("train", arguments.ranks);
  const int ranks = rank_count(arguments.ranks, launch);
  // Of the ranks that a launcher has started, one speaks for all.
  if (launch.rank == 0 && !may_train(arguments.options, ranks)) return kUsageExitCode;
  pass_on_log_level(log_level);
  return conduct_ranks(arguments.ranks, launch,
                       trainer_command("train", words_of(arguments.options)));
}

}  // namespace

void add_train_verb(CommandLine& line) {
  CLI::App* verb = add_verb(line.app, "train", "Train a model, on one rank or several",
                            "zeroshard train --config ds_config.json --data input.txt --steps 500\n"
                            "  zeroshard train --ranks 2 --model dense: --config ds_config.json");
  const auto arguments = std::make_shared<TrainArguments>();
  add_rank_options(*verb, arguments->ranks);
  add_train_options(*verb, arguments->options);
  verb->callback([&line, arguments] {
    line.action = [&line, arguments] { return train(*arguments, line.log_level); };
  });
}

}  // namespace zeroshard::cli
