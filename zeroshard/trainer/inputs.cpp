#include "zeroshard/trainer/inputs.h"

#include <string>
#include <variant>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/trainer/resume.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kBytes = 256;
constexpr const char* kTextNeeds = "text needs a vocabulary of 256, one token for each byte";

DataOptions data_in(const std::vector<std::string>& files, const TrainOptions& options,
                    const GptOptions& model) {
  if (options.format == TokenFormat::text && model.vocabulary < kBytes) {
    throw ConfigError({.what = kTextNeeds,
                       .value = fmt::format("vocab={}", model.vocabulary),
                       .remedy = "leave out vocab, or give token files with --data-format"});
  }
  return {.files = files,
          .format = options.format,
          .vocabulary = model.vocabulary,
          .sequence_length = model.sequence};
}

}  // namespace

ModelOptions model_of(const TrainOptions& options) {
  if (!options.model.empty()) return read_model(options.model);
  if (!options.init.empty()) return model_in(options.init);
  const auto resumed = checkpoint_to_resume(options);
  return resumed ? model_in(resumed->folder.string()) : read_model("gpt:");
}

DataOptions training_data(const TrainOptions& options, const GptOptions& model) {
  if (options.data.empty()) {
    throw ConfigError(
        {.what = "there is nothing to train on", .remedy = "give one or more files with --data"});
  }
  return data_in(options.data, options, model);
}

std::optional<DataOptions> evaluation_data(const TrainOptions& options, const GptOptions& model) {
  if (options.eval_data.empty()) return std::nullopt;
  return data_in(options.eval_data, options, model);
}

void refuse_data(const TrainOptions& options, const DenseOptions& model) {
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

GptOptions generating_model(const GenerateOptions& options) {
  const ModelOptions model = model_in(options.folder);
  const auto* gpt = std::get_if<GptOptions>(&model);
  if (gpt == nullptr) {
    throw ConfigError({.what = "only a gpt generates text",
                       .value = options.folder + ", a dense network",
                       .remedy = "train one with --model gpt:..."});
  }
  if (gpt->vocabulary < kBytes) {
    throw ConfigError({.what = kTextNeeds,
                       .value = fmt::format("{}, vocab={}", options.folder, gpt->vocabulary),
                       .remedy = "name a model that was trained on text"});
  }
  if (options.prompt.empty()) {
    throw ConfigError({.what = "the prompt is empty",
                       .remedy = "give at least one character, or leave out --prompt"});
  }
  return *gpt;
}

}  // namespace zeroshard
