// `zeroshard train`: looks for mistakes, then becomes the training program on every rank.
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/start_ranks.h"
#include "cli/this_machine.h"
#include "cli/train_arguments.h"
#include "cli/train_checks.h"
#include "cli/usage.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/config/batch_size.h"
#include "zeroshard/trainer/resume.h"

namespace zeroshard::cli {
namespace {

struct TrainArguments {
  RankArguments ranks;
  TrainOptions options;
  std::int64_t restarts = 0;
};

void refuse_restarts(const Launch& launch) {
  if (launch.world_size == 1) return;
  throw ConfigError({.what = "--restarts starts ranks again, and these were started by another",
                     .value = std::string(name_of(launch.launcher)),
                     .remedy = "let zeroshard start them: --ranks N"});
}

// What a wrong argument, a signal or the user has ended would end so again; what has done all its
// steps has nothing left to do.
bool may_start_again(int code) {
  const bool was_asked = code == 128 + SIGINT || code == 128 + SIGTERM;
  return code != 0 && code != kUsageExitCode && code != kNotSavedExitCode && !was_asked;
}

// What is there to go on from: nothing, or a tag.
std::string latest_of(TrainOptions options) {
  options.resume = kResumeAuto;
  const auto found = checkpoint_to_resume(options);
  return found ? found->folder.filename().string() : "";
}

// Again from the last checkpoint, as long as there is a new one each time: what ends a run twice at
// the same place is no accident.
int train_with_restarts(const TrainArguments& arguments, const Launch& launch) {
  TrainOptions options = arguments.options;
  std::string begun_from = "nothing";
  for (std::int64_t left = arguments.restarts;; --left) {
    const int code =
        run_ranks_to_end(arguments.ranks, launch, trainer_command("train", words_of(options)));
    if (!may_start_again(code) || left == 0) return code;
    const std::string latest = latest_of(options);
    if (latest == begun_from) {
      log_error(
          "the run has ended with {} again before it has saved anything: it is not started "
          "once more",
          code);
      return code;
    }
    begun_from = latest;
    if (!latest.empty()) {
      options.resume = kResumeAuto;
      options.init.clear();
    }
    log_warning("the run has ended with {} and starts again {} ({} restart{} left)", code,
                latest.empty() ? "from its beginning" : "from " + latest, left - 1,
                left == 2 ? "" : "s");
  }
}

// Who has called mpirun for one rank wants one. A step of srun with one task is also what a shell
// on a machine of SLURM's is.
bool nobody_says_ranks(const RankArguments& ranks, const Launch& launch) {
  const bool starts_them = launch.launcher == Launcher::none || launch.launcher == Launcher::srun;
  return !ranks.ranks && ranks.hostfile.empty() && starts_them && launch.world_size == 1;
}

// They are for GPUs, so a rank that finds none says so and does not go on with its CPU. Nobody has
// asked for several: where they cannot be started, or the batch sizes are of fewer, so it is.
void choose_ranks(TrainArguments& arguments, const Launch& launch) {
  if (!nobody_says_ranks(arguments.ranks, launch)) return;
  const int gpus = usual_ranks(arguments.options.device);
  if (gpus == 1) return;
  const std::string missing = missing_for_ranks();
  if (!missing.empty()) {
    log_info("1 rank, though there are {} GPUs: {}", gpus, missing);
    return;
  }
  const int ranks = config::most_ranks(batch_sizes(arguments.options), gpus);
  log_info(
      "{} rank{}, {}; --ranks N starts another number, CUDA_VISIBLE_DEVICES=0,1 leaves GPUs to "
      "others",
      ranks, ranks == 1 ? "" : "s",
      ranks == gpus ? "one for each GPU"
                    : fmt::format("the most of {} GPUs for which the batch sizes fit", gpus));
  if (ranks == 1) return;
  arguments.ranks.ranks = ranks;
  arguments.options.device = "cuda";
}

int train(TrainArguments arguments, const std::string& log_level) {
  const Launch launch = launch_of("train", arguments.ranks);
  choose_ranks(arguments, launch);
  const int ranks = rank_count(arguments.ranks, launch);
  if (arguments.restarts > 0) refuse_restarts(launch);
  // Of the ranks that a launcher has started, one speaks for all.
  if (launch.rank == 0 && !may_train(arguments.options, ranks)) return kUsageExitCode;
  pass_on_log_level(log_level);
  if (arguments.restarts > 0) return train_with_restarts(arguments, launch);
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
  verb->add_option("--restarts", arguments->restarts,
                   "Start again, so many times at most, when a rank has died")
      ->type_name("N")
      ->transform(whole_number(0, 1000))
      ->needs(verb->get_option("--save"))
      ->group("Checkpoints");
  verb->callback([&line, arguments] {
    line.action = [&line, arguments] { return train(*arguments, line.log_level); };
  });
}

}  // namespace zeroshard::cli
