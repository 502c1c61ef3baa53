#include "cli/output_paths.h"

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"

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

// What rights do not tell (/proc, a disk that went read-only, a name that is too long) is found by
// trying. Nothing of it stays.
void try_file(const Named& output, const fs::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) throw file_error("cannot write " + output.option, output.path, errno);
  ::close(file);
  ::unlink(path.c_str());
}

void try_folder(const Named& output) {
  fs::path aside = output.path;
  aside += fmt::format(".partial-{}", ::getpid());  // as the writer at the end calls it
  if (::mkdir(aside.c_str(), 0700) != 0) {
    throw file_error("cannot write " + output.option, output.path, errno);
  }
  ::rmdir(aside.c_str());
}

// The nearest folder above that is there.
fs::path whole_parent_of(const fs::path& path) {
  fs::path parent = fs::absolute(path).lexically_normal();
  while (!is_there(parent) && parent.has_relative_path()) parent = parent.parent_path();
  return parent;
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
  if (is_there(output.path)) {
    return check_writable("cannot write " + output.option, output.path, W_OK);
  }
  check_folder_of(output);
  try_file(output, output.path);
}

// The trace is written aside at the end of the run, and then renamed.
void check_replaced_file(const Named& output) {
  check_file(output);
  std::error_code ignored;
  if (output.path.empty() || !fs::is_regular_file(output.path, ignored)) return;
  check_folder_of(output);
  fs::path aside = output.path;
  try_file(output, aside += fmt::format(".{}.part", ::getpid()));
}

// Where a file system begins no other folder can be put into its place.
bool is_mount_point(const fs::path& path) {
  struct statx status {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

void refuse_mount_point(const Named& output) {
  if (!is_mount_point(output.path)) return;
  throw ConfigError(
      {.what = output.option + " is where a disk is mounted, and cannot be replaced",
       .value = output.path.string(),
       .remedy = fmt::format("name a folder in it, such as {}", (output.path / "model").string())});
}

// The rule of the writer at the end of the run (checkpoint/write_folder.h), hours earlier.
void check_folder(Named output) {
  if (output.path.empty()) return;
  if (!output.path.has_filename()) output.path = output.path.parent_path();  // "out/"
  refuse_mount_point(output);
  check_folder_of(output);
  try_folder(output);
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

// It is made where it is missing, and stays where it is there.
void check_save_folder(const Named& output) {
  if (output.path.empty()) return;
  if (!is_there(output.path)) {
    fs::path parent = whole_parent_of(output.path);
    return check_writable("cannot make the folder of " + output.option, parent, W_OK | X_OK);
  }
  if (!is_folder(output.path)) {
    throw ConfigError({.what = output.option + " is to be a folder, and here is none",
                       .value = output.path.string(),
                       .remedy = "choose another name"});
  }
  check_writable("cannot write into the folder of " + output.option, output.path, W_OK | X_OK);
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
  const Named report{"--report", options.report};
  check_file(log);
  check_replaced_file(trace);
  check_replaced_file(report);
  check_folder({"--out", options.out});
  check_save_folder({"--save", options.save});
  refuse_same(trace, log);
  refuse_same(report, log);
  refuse_same(report, trace);
  for (const Named& input : inputs_of(options)) {
    for (const Named& output : {log, trace, report}) refuse_same(output, input);
  }
}

}  // namespace zeroshard::cli
