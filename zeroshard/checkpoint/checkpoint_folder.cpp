#include "zeroshard/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/base/utf8.h"
#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/file_name.h"
#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/checkpoint/unfinished.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestTag = 200;

// What DeepSpeed has written has such names, whatever the stage.
bool is_deepspeeds(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with("_model_states.pt") || name.ends_with("_optim_states.pt")) return true;
  }
  return false;
}

std::string list_of(const std::vector<std::string>& tags) {
  constexpr std::size_t kShown = 5;
  const std::vector<std::string> last(
      tags.end() - static_cast<std::ptrdiff_t>(std::min(kShown, tags.size())), tags.end());
  return fmt::format("{}{}", tags.size() > kShown ? "..., " : "", fmt::join(last, ", "));
}

[[noreturn]] void throw_no_checkpoint(const fs::path& root, const fs::path& folder) {
  const std::vector<std::string> tags = tags_in(root);
  const bool deepspeeds = is_deepspeeds(folder) || is_deepspeeds(root);
  std::string remedy = "name the folder that a run has saved to";
  if (deepspeeds) {
    remedy = "it is one of DeepSpeed's: zeroshard checkpoint import converts it";
  } else if (!tags.empty()) {
    remedy = fmt::format("there are {}", list_of(tags));
  }
  throw ConfigError({.what = fmt::format("there is no checkpoint here, with a {}", kManifestFile),
                     .value = folder.string(),
                     .remedy = remedy});
}

// Where a save was cut short between two renames, the former one is whole under another name, and
// the next save puts it back (write_folder.h). Empty where there is none.
fs::path folder_of(const fs::path& root, const std::string& tag) {
  if (is_checkpoint(root / tag)) return root / tag;
  fs::path kept = interrupted_replacement(root / tag);
  return !kept.empty() && is_checkpoint(kept) ? kept : fs::path();
}

// What is copied or touched keeps its place: files' own times say nothing.
std::int64_t saved_at_ms(const fs::path& manifest) {
  try {
    return parse_part(read_text_file(manifest, kMaxManifestBytes), manifest.string()).saved_at_ms;
  } catch (const StorageError&) {
    struct stat status {};
    if (::stat(manifest.c_str(), &status) != 0) return 0;
    return std::int64_t{status.st_mtim.tv_sec} * 1000 + status.st_mtim.tv_nsec / 1'000'000;
  }
}

fs::path latest_in(const fs::path& root) {
  const std::optional<std::string> tag = read_pointer(root, kLatestFile);
  if (tag) {
    if (fs::path found = folder_of(root, *tag); !found.empty()) return found;
    const std::vector<std::string> tags = tags_in(root);
    const bool deepspeeds = is_deepspeeds(root / *tag);
    throw StorageError(
        {.what = fmt::format("the file `latest` names a checkpoint that is not there: {}", *tag),
         .value = root.string(),
         .remedy = deepspeeds ? "it is one of DeepSpeed's: zeroshard checkpoint import converts it"
                   : tags.empty() ? "no other one is there either"
                                  : fmt::format("name one of {}", list_of(tags))});
  }
  const std::vector<std::string> tags = tags_in(root);
  if (tags.empty()) throw_no_checkpoint(root, root);
  throw ConfigError({.what = "there is no file `latest` that says which checkpoint is meant",
                     .value = root.string(),
                     .remedy = fmt::format("name one of {}", list_of(tags))});
}

}  // namespace

bool is_tag(std::string_view tag) {
  return is_file_name(tag) && tag.size() <= kLongestTag && tag.front() != '.' &&
         !is_unfinished_name(tag);
}

void check_tag(std::string_view tag) {
  if (is_tag(tag)) return;
  throw ConfigError({.what = "this is no tag for a checkpoint",
                     .value = json_quoted_short(tag),
                     .remedy = "give a plain name, such as global_step100"});
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kManifestFile, ignored);
}

fs::path find_checkpoint(const fs::path& folder, const std::string& tag) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    const fs::path path = normal_target(folder);
    fs::path found = tag.empty() ? folder_of(path.parent_path(), path.filename()) : fs::path();
    if (found.empty()) throw_no_checkpoint(folder.parent_path(), folder);
    return found;
  }
  if (!tag.empty()) {
    check_tag(tag);
    fs::path found = folder_of(folder, tag);
    if (found.empty()) throw_no_checkpoint(folder, folder / tag);
    return found;
  }
  return is_checkpoint(folder) ? folder : latest_in(folder);
}

std::vector<std::string> tags_in(const fs::path& root) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!is_tag(name) || !is_checkpoint(it->path())) continue;
    found.emplace_back(saved_at_ms(it->path() / kManifestFile), name);
  }
  std::ranges::sort(found);
  std::vector<std::string> tags;
  for (auto& [time, name] : found) tags.push_back(std::move(name));
  return tags;
}

std::optional<std::string> read_pointer(const fs::path& root, std::string_view pointer) {
  const fs::path path = root / pointer;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  std::string tag = read_text_file(path, kLongestTag + 2);
  while (!tag.empty() && (tag.back() == '\n' || tag.back() == '\r')) tag.pop_back();
  if (is_tag(tag)) return tag;
  throw StorageError(
      {.what = "this file should hold the tag of a checkpoint, and does not",
       .value = path.string(),
       .remedy = "name the checkpoint's own folder, or write its tag into the file"});
}

void write_pointer(const fs::path& root, std::string_view pointer, const std::string& tag) {
  const fs::path path = root / pointer;
  const fs::path aside = partial_path(path);
  write_text_file(aside, tag);
  std::error_code error;
  fs::rename(aside, path, error);
  if (error) throw file_error("a file cannot be renamed into place", path, error.value());
  sync_folder(root);
}

}  // namespace zeroshard
