#include "cli/train_checks.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "cli/output_paths.h"
#include "zeroshard/base/error.h"
#include "zeroshard/config/read.h"
#include "zeroshard/config/summary.h"
#include "zeroshard/trainer/inputs.h"
#include "zeroshard/trainer/resume.h"
#include "zeroshard/trainer/run_plan.h"
#include "zeroshard/trainer/run_settings.h"
#include "zeroshard/trainer/synthetic.h"
#include "zeroshard/trainer/token_file.h"
#include "zeroshard/trainer/weight_files.h"

namespace zeroshard::cli {
namespace {

namespace fs = std::filesystem;

// What comes through a pipe can be read once, and every rank reads it again.
void refuse_pipe(const std::string& config) {
  std::error_code ignored;
  if (!fs::is_fifo(config, ignored)) return;
  throw ConfigError({.what = "the config file is a pipe, and every rank has to read it",
                     .value = config,
                     .remedy = "write it to a file first"});
}

config::ReadResult read_and_say_problems(const TrainOptions& options, int ranks) {
  refuse_pipe(options.config);
  config::ReadResult read = read_config_of(options, parse_config_of(options), ranks);
  for (const config::Problem& problem : config::summary(read.report)) {
    std::fprintf(stderr, "%s\n", format_problem(options.config, problem).c_str());
  }
  return read;
}

// A folder as `train --out` writes it, one of HuggingFace's, or one of checkpoints.
void check_model_folder(const std::string& folder, const std::string& called) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw ConfigError({.what = called + " is no folder",
                       .value = folder,
                       .remedy = "name a folder that train --out has written"});
  }
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "manifest.json", "latest"}) {
    if (fs::is_regular_file(fs::path(folder) / name, ignored)) return;
  }
  throw ConfigError({.what = called + " has no model.safetensors",
                     .value = folder,
                     .remedy = "name a folder that train --out has written"});
}

// Returns how many samples there are.
std::int64_t check_files(const DataOptions& data) {
  const TokenFiles files(data);
  // A wrong format or vocabulary shows in the first tokens, and reading them costs nothing.
  std::vector<std::int64_t> inputs(static_cast<std::size_t>(data.sequence_length));
  std::vector<std::int64_t> targets(inputs.size());
  files.read_sample(0, inputs, targets);
  return files.sample_count();
}

std::int64_t check_data(const TrainOptions& options, const GptOptions& model) {
  const std::int64_t samples = check_files(training_data(options, model));
  if (const auto evaluation = evaluation_data(options, model)) check_files(*evaluation);
  return samples;
}

std::int64_t check_data(const TrainOptions& options, const DenseOptions& model) {
  refuse_data(options, model);
  return LinearData({}).sample_count();
}

// Only torch knows whether there is a GPU. Where nobody says, the ranks look again: they know.
bool may_have_accelerator(const TrainOptions& options) { return options.device != "cpu"; }

}  // namespace

BatchOptions batch_sizes(const TrainOptions& options) {
  if (options.batch_size) return {};
  refuse_pipe(options.config);
  return config::read_config(parse_config_of(options), {.strict = options.strict}).config.batch;
}

bool may_train(const TrainOptions& options, int ranks) {
  const config::ReadResult read = read_and_say_problems(options, ranks);
  if (read.report.has_errors()) return false;
  if (!options.init.empty()) check_model_folder(options.init, "--init");
  const ModelOptions model = model_of(options);
  const std::int64_t samples =
      std::visit([&](const auto& one) { return check_data(options, one); }, model);
  RunFacts facts{.world_size = ranks,
                 .has_accelerator = may_have_accelerator(options),
                 .sample_count = samples};
  // What is here only the ranks can tell, but what is given can be judged before they start.
  const bool is_given = options.device_memory && !options.device.empty();
  if (is_given) {
    facts.memory.device = options.device_memory;
    facts.memory_is_given = true;
  }
  const RunSettings run = resolve_run(options, read, facts);
  if (is_given) judge_memory(run, plan_of(run, facts), facts);
  if (!options.init.empty()) check_weights(StateFiles::open(options.init), model);
  if (const auto resumed = checkpoint_to_resume(options)) {
    check_weights(StateFiles::open_checkpoint(resumed->folder), model);
  }
  check_outputs(options);
  refuse_others_checkpoints(options);
  if (!options.out.empty()) check_room(options.out, model, run.config.precision.model());
  if (!options.save.empty()) {
    check_room_for_checkpoint(options.save, model, moments_per_parameter(*run.config.optimizer));
  }
  return true;
}

void check_generation(const GenerateOptions& options) {
  check_model_folder(options.folder, "the model to generate with");
  generating_model(options);
}

}  // namespace zeroshard::cli
