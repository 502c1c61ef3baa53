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
#include "zeroshard/trainer/inputs.h"
#include "zeroshard/trainer/token_file.h"

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

bool config_is_fine(const TrainOptions& options, int ranks) {
  if (options.config.empty()) return true;
  refuse_pipe(options.config);
  const config::ReadResult read =
      config::read_config_file(options.config, {.strict = options.strict, .world_size = ranks});
  for (const config::Problem& problem : read.report.problems()) {
    std::fprintf(stderr, "%s\n", format_problem(options.config, problem).c_str());
  }
  return !read.report.has_errors();
}

// A folder as `train --out` writes it, or one of HuggingFace's.
void check_model_folder(const std::string& folder, const std::string& called) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw ConfigError({.what = called + " is no folder",
                       .value = folder,
                       .remedy = "name a folder that train --out has written"});
  }
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::is_regular_file(fs::path(folder) / name, ignored)) return;
  }
  throw ConfigError({.what = called + " has no model.safetensors",
                     .value = folder,
                     .remedy = "name a folder that train --out has written"});
}

void check_files(const DataOptions& data) {
  const TokenFiles files(data);
  // A wrong format or vocabulary shows in the first tokens, and reading them costs nothing.
  std::vector<std::int64_t> inputs(static_cast<std::size_t>(data.sequence_length));
  std::vector<std::int64_t> targets(inputs.size());
  files.read_sample(0, inputs, targets);
}

void check_data(const TrainOptions& options, const GptOptions& model) {
  check_files(training_data(options, model));
  if (const auto evaluation = evaluation_data(options, model)) check_files(*evaluation);
}

void check_data(const TrainOptions& options, const DenseOptions& model) {
  refuse_data(options, model);
}

}  // namespace

bool may_train(const TrainOptions& options, int ranks) {
  if (!config_is_fine(options, ranks)) return false;
  if (!options.init.empty()) check_model_folder(options.init, "--init");
  const ModelOptions model = model_of(options);
  std::visit([&](const auto& one) { check_data(options, one); }, model);
  check_outputs(options);
  return true;
}

void check_generation(const GenerateOptions& options) {
  check_model_folder(options.folder, "the model to generate with");
  generating_model(options);
}

}  // namespace zeroshard::cli
