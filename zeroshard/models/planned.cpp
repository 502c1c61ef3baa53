#include "zeroshard/models/planned.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <rapidjson/document.h>

#include "zeroshard/base/error.h"
#include "zeroshard/models/activations.h"
#include "zeroshard/models/shapes.h"
#include "zeroshard/models/size_ops.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/models/validate.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kMostLayers = 2'000;  // that are looked at for the largest that fits

class BuiltInModel final : public PlannedModel {
 public:
  explicit BuiltInModel(ModelOptions options)
      : options_(std::move(options)), parameters_(parameter_count(options_)) {
    check_countable(parameters_);
  }

  std::string description() const override { return short_description(options_); }
  std::int64_t parameters() const override { return parameters_; }
  ModelLayout layout(DType dtype, int ranks) const override {
    return layout_of_alike(dtype, ranks);
  }
  std::optional<ModelActivations> activations(const ActivationQuery& query) const override {
    return activations_of(options_, query);
  }

  std::int64_t sequence() const override {
    const auto* gpt = std::get_if<GptOptions>(&options_);
    return gpt == nullptr ? 1 : gpt->sequence;
  }
  std::int64_t size() const override {
    const auto* gpt = std::get_if<GptOptions>(&options_);
    return gpt == nullptr ? 1 : gpt->layers;
  }
  std::int64_t largest_size() const override {
    return std::holds_alternative<GptOptions>(options_) ? std::max(kMostLayers, size()) : 1;
  }
  std::unique_ptr<PlannedModel> of_size(std::int64_t size) const override {
    ModelOptions other = options_;
    if (auto* gpt = std::get_if<GptOptions>(&other)) gpt->layers = size;
    return planned_model(other);
  }

 private:
  // As layout_of() has it, with the blocks made from the first one: they differ in nothing but
  // names, and a plan asks for many models of many blocks.
  ModelLayout layout_of_alike(DType dtype, int ranks) const {
    const auto* gpt = std::get_if<GptOptions>(&options_);
    if (gpt == nullptr) return layout_of(options_, dtype, ranks);
    validate(options_);
    GptOptions one = *gpt;
    one.layers = 1;
    const ModelLayout shortest = layout_of(one, dtype, ranks);
    return with_blocks(shortest, {.first = shortest.units().size() - 2, .count = gpt->layers});
  }

  const ModelOptions options_;
  const std::int64_t parameters_;
};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One of ours, or nothing that could be one of HuggingFace's: spec.h then says what is wrong.
bool is_ours(const std::string& json) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag>(json.data(),
                                                                                  json.size());
  if (document.HasParseError() || !document.IsObject()) return true;
  const auto type = document.FindMember("model_type");
  if (type == document.MemberEnd() || !type->value.IsString()) return false;
  const std::string kind(type->value.GetString(), type->value.GetStringLength());
  return kind == "gpt" || kind == "dense";
}

}  // namespace

std::unique_ptr<PlannedModel> planned_model(const ModelOptions& options) {
  return std::make_unique<BuiltInModel>(options);
}

std::unique_ptr<PlannedModel> read_planned_model(const std::string& text,
                                                 const HfModelOptions& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path path(text);
  if (fs::is_directory(path, ignored)) path /= "config.json";
  if (fs::is_regular_file(path, ignored)) {
    const std::string json = text_of(path);
    if (!is_ours(json)) return hf_model(read_transformer_shape(json, path.string()), options);
  }
  ModelOptions model = read_model(text);
  if (options.lora_rank > 0) {
    throw ConfigError({.what = "the built-in models have no adapters",
                       .value = text,
                       .remedy = "leave out --lora-rank, or name a model of HuggingFace's"});
  }
  if (auto* gpt = std::get_if<GptOptions>(&model); gpt != nullptr) {
    if (options.sequence > 0) gpt->sequence = options.sequence;
    gpt->checkpoint_activations |= options.checkpoint_activations;
  }
  return planned_model(model);
}

}  // namespace zeroshard
