#include "zeroshard/trainer/resume.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/model_folder.h"
#include "zeroshard/models/spec.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAuto = "auto";
constexpr const char* kConfig = "config.json";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

std::optional<fs::path> checkpoint_to_resume(const TrainOptions& options) {
  if (options.resume.empty()) return std::nullopt;
  if (options.resume != kAuto) return find_checkpoint(options.resume);
  if (options.save.empty()) {
    throw ConfigError({.what = "--resume auto goes on from what --save has, and there is no --save",
                       .remedy = "give --save DIR, or the checkpoint itself"});
  }
  if (!read_pointer(options.save, kLatestFile)) return std::nullopt;
  return find_checkpoint(options.save);
}

ModelOptions model_in(const std::string& folder) {
  const fs::path path = folder;
  const bool has_weights = is_there(path / kModelFile) || is_there(path / kModelIndexFile);
  if (has_weights || is_there(path / kConfig)) return read_model((path / kConfig).string());
  const StateFiles files = StateFiles::open_checkpoint(folder);
  const auto found = files.manifest().documents.find(kConfig);
  if (found == files.manifest().documents.end()) {
    throw ConfigError({.what = "this checkpoint does not say which model it is of",
                       .value = files.folder().string(),
                       .remedy = "give the model with --model"});
  }
  return model_from_json(found->second, files.folder().string());
}

void refuse_others_checkpoints(const TrainOptions& options) {
  if (options.save.empty() || options.resume == kAuto) return;
  const std::vector<std::string> tags = tags_in(options.save);
  if (tags.empty()) return;
  std::error_code ignored;
  const std::optional<fs::path> resumed = checkpoint_to_resume(options);
  if (resumed && fs::equivalent(resumed->parent_path(), options.save, ignored)) return;
  throw ConfigError({.what = fmt::format(
                         "--save has checkpoints of another run, {} the last of them", tags.back()),
                     .value = options.save,
                     .remedy = "give --resume auto to go on from it, or another folder"});
}

}  // namespace zeroshard
