#include "cli/output_paths.h"

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "zeroshard/base/error.h"

namespace zeroshard::cli {
namespace {

namespace fs = std::filesystem;

// A path, and the option that gave it.
struct Named {
  std::string option;
  fs::path path;
};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void check_writable(const std::string& what, const fs::path& path, int rights) {
  if (access(path.c_str(), rights) == 0) return;
  throw StorageError(
      {.what = what,
       .value = fmt::format("{} ({})", path.string(), std::generic_category().message(errno)),
       .remedy = "check its permissions, or choose another"});
}

void check_folder_of(const Named& output) {
  fs::path folder = output.path.parent_path();
  if (folder.empty()) folder = ".";
  if (!is_folder(folder)) {
    throw ConfigError({.what = "there is no folder for " + output.option,
                       .value = folder.string(),
                       .remedy = "create it, or choose another"});
  }
  check_writable("cannot write into the folder of " + output.option, folder, W_OK | X_OK);
}

void check_file(const Named& output) {
  if (output.path.empty()) return;
  if (is_folder(output.path) || !output.path.has_filename()) {
    throw ConfigError({.what = output.option + " is to be a file, and here is a folder",
                       .value = output.path.string(),
                       .remedy = "give the name of a file in it"});
  }
  if (!is_there(output.path)) return check_folder_of(output);
  check_writable("cannot write " + output.option, output.path, W_OK);
}

// The rule of the writer at the end of the run (checkpoint/write_folder.h), hours earlier.
void check_folder(Named output) {
  if (output.path.empty()) return;
  if (!output.path.has_filename()) output.path = output.path.parent_path();  // "out/"
  check_folder_of(output);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(output.path, error))) return;
  const auto has = [&](const char* name) { return is_there(output.path / name); };
  const bool folder = fs::is_directory(fs::symlink_status(output.path, error));
  const bool ours = has("config.json") && has("model.safetensors");
  if (folder && (ours || fs::is_empty(output.path, error))) return;
  throw ConfigError({.what = output.option + (folder ? " is a folder that holds something else"
                                                     : " is to be a folder, and here is none"),
                     .value = output.path.string(),
                     .remedy = "choose another name, or remove it yourself"});
}

// Whole and without detours; a file that is not there yet has such a path as well.
fs::path whole(const fs::path& path) {
  std::error_code ignored;
  return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
}

void refuse_same(const Named& one, const Named& other) {
  if (one.path.empty() || other.path.empty() || whole(one.path) != whole(other.path)) return;
  throw ConfigError({.what = fmt::format("{} would overwrite {}", one.option, other.option),
                     .value = one.path.string(),
                     .remedy = "give another name"});
}

std::vector<Named> inputs_of(const TrainOptions& options) {
  std::vector<Named> inputs{{"--config", options.config}, {"--model", options.model}};
  for (const std::string& file : options.data) inputs.push_back({"--data", file});
  for (const std::string& file : options.eval_data) inputs.push_back({"--eval-data", file});
  return inputs;
}

}  // namespace

void check_outputs(const TrainOptions& options) {
  const Named log{"--log", options.log}, trace{"--trace", options.trace};
  check_file(log);
  check_file(trace);
  check_folder({"--out", options.out});
  refuse_same(trace, log);
  for (const Named& input : inputs_of(options)) {
    refuse_same(log, input);
    refuse_same(trace, input);
  }
}

}  // namespace zeroshard::cli
