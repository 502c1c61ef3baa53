#include "zeroshard/trainer/run_settings.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/config/read.h"
#include "zeroshard/models/shapes.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/setup/plan_run.h"
#include "zeroshard/setup/settled_config.h"
#include "zeroshard/trainer/command_line_values.h"
#include "zeroshard/trainer/inputs.h"
#include "zeroshard/trainer/run_plan.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kDefaultMicroBatch = 8;
constexpr std::int64_t kDefaultDenseBatch = 4;  // of all ranks: 1,000 samples are few

bool is_dense(const RunSettings& run) { return std::holds_alternative<DenseOptions>(run.model); }

void choose_optimizer(RunSettings& run, std::optional<double> lr) {
  if (run.config.optimizer) return;
  AdamOptions adam{.weight_decay = 0.01};
  if (lr) adam.lr = *lr;
  if (is_dense(run)) adam.weight_decay = 0.0;  // towards what is not the truth
  run.config.optimizer = adam;
  run.assumed.push_back(
      fmt::format("no optimizer: AdamW, lr {}, weight decay {}", adam.lr, adam.weight_decay));
}

// Of all ranks together not more than there are samples, where they are that few.
std::int64_t default_micro_batch(const RunSettings& run, const RunFacts& facts) {
  if (is_dense(run)) return std::max<std::int64_t>(kDefaultDenseBatch / facts.world_size, 1);
  if (facts.sample_count == 0) return kDefaultMicroBatch;
  return std::clamp<std::int64_t>(facts.sample_count / facts.world_size, 1, kDefaultMicroBatch);
}

void choose_batch(RunSettings& run, const RunFacts& facts) {
  config::SolvedBatch solved = config::solve_batch(run.config.batch, facts.world_size);
  if (solved.sizes) {
    run.batch = *solved.sizes;
    return;
  }
  if (!solved.what.empty()) throw ConfigError({.what = solved.what, .remedy = solved.remedy});
  const std::int64_t micro = default_micro_batch(run, facts);
  run.config.batch.micro_per_rank = micro;
  run.batch = *config::solve_batch(run.config.batch, facts.world_size).sizes;
  run.assumed.push_back(
      fmt::format("no batch size: {} per rank, {} in all", micro, run.batch.train));
}

// What the batch is, before stage and offload are chosen by it.
config::BatchSizes likely_batch(const Config& config, const ModelOptions& model,
                                const TrainOptions& options, const RunFacts& facts) {
  RunSettings run{.config = config, .model = model};
  if (options.batch_size) take_batch_size(run, *options.batch_size, facts.world_size);
  choose_batch(run, facts);
  return run.batch;
}

// Such a step would see some samples several times, which nobody means: the data is not the one
// that was meant, or the batch is not.
void refuse_too_few_samples(const RunSettings& run, const RunFacts& facts) {
  if (facts.sample_count == 0 || facts.sample_count >= run.batch.train) return;
  throw ConfigError({.what = "a step takes more samples than there are",
                     .value = fmt::format("batch {}, {} sample{} in the data", run.batch.train,
                                          facts.sample_count, facts.sample_count == 1 ? "" : "s"),
                     .remedy = is_dense(run) ? "make the batch smaller (--batch-size)"
                                             : "give more data, a smaller batch (--batch-size) or "
                                               "a shorter sequence (seq of --model)"});
}

std::int64_t steps_of(const RunSettings& run, const RunFacts& facts, std::int64_t epochs) {
  const std::int64_t full = facts.sample_count / run.batch.train;
  const bool rest = facts.sample_count % run.batch.train != 0 && !run.config.batch.drop_last;
  return std::max<std::int64_t>(epochs * (full + (rest ? 1 : 0)), 1);
}

void choose_steps(RunSettings& run, const TrainOptions& options, const RunFacts& facts) {
  if (options.steps) {
    run.steps = *options.steps;
    return;
  }
  const std::int64_t epochs = options.epochs.value_or(is_dense(run) ? 30 : 1);
  run.steps = steps_of(run, facts, epochs);
  if (options.epochs) return;
  run.assumed.push_back(fmt::format("no --steps: {} epoch{}, which is {} steps", epochs,
                                    epochs == 1 ? "" : "s", run.steps));
}

// A schedule needs to know where it ends.
void choose_schedule_length(RunSettings& run) {
  if (!run.config.scheduler) return;
  const auto set = [&](auto& schedule) {
    if constexpr (requires { schedule.total_num_steps; }) {
      if (schedule.total_num_steps > 0) return;
      schedule.total_num_steps = run.steps;
      run.assumed.push_back(fmt::format("no total_num_steps: all {} steps", run.steps));
    }
  };
  std::visit(set, *run.config.scheduler);
}

SettledConfig settled_for(const config::ReadResult& read, const ModelOptions& model,
                          const RunFacts& facts) {
  const PlanFacts machine{.ranks = facts.world_size,
                          .ranks_per_node = facts.ranks_on_host,
                          .on_accelerator = facts.has_accelerator,
                          .has_idle_cores = facts.has_idle_cores};
  return settle_config(read, {.communication = communication_facts(machine, parameter_count(model)),
                              .on_accelerator = facts.has_accelerator});
}

// Every key that the file left at "auto" and has a value here by now.
void name_automatic(RunSettings& run, const config::ReadResult& read) {
  for (const auto& [key, origin] : read.provenance) {
    if (origin.source != config::Source::automatic) continue;
    run.assumed.push_back(fmt::format("{} is \"auto\": what is written here, or its default", key));
  }
}

}  // namespace

config::ParsedConfig parse_config_of(const TrainOptions& options) {
  return options.config.empty() ? config::parse_config("{}")
                                : config::parse_config_file(options.config);
}

config::ReadResult read_config_of(const TrainOptions& options, const config::ParsedConfig& parsed,
                                  int world_size) {
  config::ReadOptions how{.strict = options.strict};
  if (!options.batch_size && !options.config.empty()) how.world_size = world_size;
  return config::read_config(parsed, how);
}

RunSettings resolve_run(const TrainOptions& options, const config::ReadResult& given,
                        const RunFacts& facts) {
  config::refuse_errors(options.config, given.report);
  const ModelOptions model = model_of(options);
  const auto resolved = std::make_shared<config::ReadResult>(given);
  std::vector<std::string> automatic =
      settle_auto(*resolved, model, likely_batch(given.config, model, options, facts), facts);
  const config::ReadResult& read = *resolved;
  const SettledConfig settled = settled_for(read, model, facts);
  RunSettings run{.config = settled.config, .model = model, .read = resolved};
  if (options.config.empty()) run.assumed.emplace_back("no --config: stage 0, all defaults");
  if (options.model.empty() && options.init.empty() && options.resume.empty()) {
    run.assumed.push_back("no --model: " + short_description(run.model));
  }
  choose_optimizer(run, options.lr);
  if (options.lr) take_learning_rate(run, *options.lr);
  if (settled.chosen_precision) run.assumed.push_back(*settled.chosen_precision);
  if (options.batch_size) take_batch_size(run, *options.batch_size, facts.world_size);
  choose_batch(run, facts);
  refuse_too_few_samples(run, facts);
  choose_steps(run, options, facts);
  choose_schedule_length(run);
  run.assumed.insert(run.assumed.end(), settled.chosen_communication.begin(),
                     settled.chosen_communication.end());
  run.assumed.insert(run.assumed.end(), automatic.begin(), automatic.end());
  name_automatic(run, read);
  return run;
}

ModelLayout layout_of(const RunSettings& run, int world_size) {
  return layout_of(run.model, run.config.precision.model(), world_size);
}

}  // namespace zeroshard
