#include "zeroshard/trainer/resume.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/model_folder.h"
#include "zeroshard/models/spec.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Of these, the last that can be opened.
fs::path last_sound(const fs::path& root, std::vector<std::string> tags) {
  for (; !tags.empty(); tags.pop_back()) {
    try {
      return StateFiles::open_checkpoint(root / tags.back()).folder();
    } catch (const StorageError&) {
      continue;
    }
  }
  return {};
}

// A run that ended before the first `latest` was written has a complete checkpoint all the same.
std::optional<ResumedCheckpoint> newest_in(const fs::path& root) {
  const fs::path found = last_sound(root, tags_in(root));
  if (found.empty()) return std::nullopt;
  return ResumedCheckpoint{found, fmt::format("{} names none", (root / kLatestFile).string())};
}

std::optional<ResumedCheckpoint> latest_sound(const fs::path& root) {
  try {
    if (!read_pointer(root, kLatestFile)) return newest_in(root);
    return ResumedCheckpoint{StateFiles::open_checkpoint(root).folder()};
  } catch (const StorageError& error) {
    std::optional<ResumedCheckpoint> found = newest_in(root);
    if (!found) throw;
    found->instead = error.what();
    return found;
  }
}

}  // namespace

std::optional<ResumedCheckpoint> checkpoint_to_resume(const TrainOptions& options) {
  if (options.resume.empty()) return std::nullopt;
  if (options.resume != kResumeAuto) return ResumedCheckpoint{find_checkpoint(options.resume)};
  if (options.save.empty()) {
    throw ConfigError({.what = "--resume auto goes on from what --save has, and there is no --save",
                       .remedy = "give --save DIR, or the checkpoint itself"});
  }
  return latest_sound(options.save);
}

fs::path older_checkpoint(const fs::path& folder) {
  const fs::path root = folder.parent_path();
  std::vector<std::string> tags = tags_in(root);
  const auto here = std::ranges::find(tags, folder.filename().string());
  tags.erase(here, tags.end());
  return last_sound(root, std::move(tags));
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
  if (options.save.empty() || options.resume == kResumeAuto) return;
  const std::vector<std::string> tags = tags_in(options.save);
  if (tags.empty()) return;
  std::error_code ignored;
  const auto resumed = checkpoint_to_resume(options);
  if (resumed && fs::equivalent(resumed->folder.parent_path(), options.save, ignored)) return;
  throw ConfigError({.what = fmt::format(
                         "--save has checkpoints of another run, {} the last of them", tags.back()),
                     .value = options.save,
                     .remedy = "give --resume auto to go on from it, or another folder"});
}

}  // namespace zeroshard
