#include "cli/train_checks.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cli/output_paths.h"
#include "zeroshard/base/error.h"
#include "zeroshard/config/read.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/trainer/token_file.h"

namespace zeroshard::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBytes = 256;

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
  if (options.data.empty()) {
    throw ConfigError(
        {.what = "there is nothing to train on", .remedy = "give one or more files with --data"});
  }
  if (options.format == TokenFormat::text && model.vocabulary < kBytes) {
    throw ConfigError({.what = "text needs a vocabulary of 256, one token for each byte",
                       .value = fmt::format("vocab={}", model.vocabulary),
                       .remedy = "leave out vocab, or give token files with --data-format"});
  }
  for (const auto& files : {options.data, options.eval_data}) {
    if (files.empty()) continue;
    check_files({.files = files,
                 .format = options.format,
                 .vocabulary = model.vocabulary,
                 .sequence_length = model.sequence});
  }
}

void check_data(const TrainOptions& options, const DenseOptions& model) {
  const std::string option = !options.data.empty()                 ? "--data " + options.data[0]
                             : !options.eval_data.empty()          ? "--eval-data"
                             : options.format != TokenFormat::text ? "--data-format"
                                                                   : "";
  if (!option.empty()) {
    throw ConfigError({.what = "a dense network makes its own data, y = 2x + 1",
                       .value = option,
                       .remedy = "leave it out, or train a gpt"});
  }
  if (model.inputs == 1 && model.outputs == 1) return;
  throw ConfigError(
      {.what = "the data of a dense network, y = 2x + 1, has one number in and one out",
       .value = fmt::format("inputs={}, outputs={}", model.inputs, model.outputs),
       .remedy = "give dense:inputs=1,outputs=1"});
}

// As the training program chooses it.
std::string model_text(const TrainOptions& options) {
  if (!options.model.empty()) return options.model;
  return options.init.empty() ? "gpt:" : options.init;
}

}  // namespace

bool may_train(const TrainOptions& options, int ranks) {
  if (!config_is_fine(options, ranks)) return false;
  if (!options.init.empty()) check_model_folder(options.init, "--init");
  const ModelOptions model = read_model(model_text(options));
  std::visit([&](const auto& one) { check_data(options, one); }, model);
  check_outputs(options);
  return true;
}

void check_generation(const GenerateOptions& options) {
  check_model_folder(options.folder, "the model to generate with");
  const ModelOptions model = read_model(options.folder + "/config.json");
  const auto* gpt = std::get_if<GptOptions>(&model);
  if (gpt == nullptr) {
    throw ConfigError({.what = "only a gpt generates text",
                       .value = options.folder + ", a dense network",
                       .remedy = "train one with --model gpt:..."});
  }
  if (gpt->vocabulary < kBytes) {
    throw ConfigError({.what = "text needs a vocabulary of 256, one token for each byte",
                       .value = fmt::format("{}, vocab={}", options.folder, gpt->vocabulary),
                       .remedy = "name a model that was trained on text"});
  }
  if (options.prompt.empty()) {
    throw ConfigError({.what = "the prompt is empty",
                       .remedy = "give at least one character, or leave out --prompt"});
  }
}

}  // namespace zeroshard::cli
