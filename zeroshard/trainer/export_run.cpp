#include "zeroshard/trainer/export_run.h"

#include <optional>
#include <utility>
#include <variant>

#include "zeroshard/base/error.h"
#include "zeroshard/models/hf_names.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/trainer/weight_files.h"

namespace zeroshard {
namespace {

// Nothing where the checkpoint is of no built-in model.
std::optional<ModelOptions> built_in_model(const StateFiles& files) {
  const auto found = files.manifest().documents.find("config.json");
  if (found == files.manifest().documents.end()) return std::nullopt;
  try {
    return model_from_json(found->second);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

// A config.json may say what it likes.
bool is_of(const StateFiles& files, const ModelOptions& model) {
  try {
    check_weights(files, model);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

std::optional<ExportLayout> layout_for(const StateFiles& files, const ModelOptions& model) {
  const auto* const gpt = std::get_if<GptOptions>(&model);
  std::optional<HfNames> names = gpt != nullptr ? hf_names(*gpt) : std::nullopt;
  if (!names || !is_of(files, model)) return std::nullopt;
  ExportLayout layout{.tensors = {}, .config = std::move(names->config)};
  for (HfTensor& tensor : names->tensors) {
    layout.tensors.push_back({.name = std::move(tensor.name),
                              .from = std::move(tensor.from),
                              .shape = std::move(tensor.dims),
                              .first_row = tensor.first_row,
                              .transposed = tensor.transposed});
  }
  return layout;
}

}  // namespace

ExportedRun export_run(const StateFiles& files, const std::filesystem::path& out,
                       ExportOptions options) {
  const std::optional<ModelOptions> model = built_in_model(files);
  if (model) options.layout = layout_for(files, *model);
  const bool is_ours_alone = model && !options.layout;
  return {.model = export_model(files, out, options), .is_ours_alone = is_ours_alone};
}

}  // namespace zeroshard
