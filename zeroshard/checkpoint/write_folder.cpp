#include "zeroshard/checkpoint/write_folder.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/unfinished.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

void rename_or_throw(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw file_error("a folder cannot be renamed into place", to, error.value());
}

// Whether the two names were exchanged; false where the file system cannot.
bool exchange(const fs::path& one, const fs::path& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0)
    return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  throw file_error("a folder cannot be exchanged with the new one", other, errno);
}

// Files come from many hands, some without a sync of their own.
void sync_all(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) {
      sync_folder(entry.path());
    } else if (entry.is_regular_file()) {
      File::open_to_read(entry.path()).sync();
    }
  }
  sync_folder(folder);
}

}  // namespace

fs::path replace_by_two_renames(const fs::path& partial, const fs::path& target) {
  fs::path old = replaced_path(target);
  rename_or_throw(target, old);
  std::error_code error;
  fs::rename(partial, target, error);
  if (error) {
    rename_or_throw(old, target);
    throw file_error("a folder cannot be renamed into place", target, error.value());
  }
  return old;
}

FolderWriter::FolderWriter(fs::path target, std::vector<std::string> marks)
    : target_(normal_target(target)), marks_(std::move(marks)) {
  recover(target_);
  check_replaceable();
  make_partial();
}

bool FolderWriter::has_marks(const fs::path& folder) const {
  return std::all_of(marks_.begin(), marks_.end(), [&](const std::string& name) {
    std::error_code ignored;
    return fs::is_regular_file(folder / name, ignored);
  });
}

void FolderWriter::check_replaceable() const {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(target_, error);
  if (!fs::exists(status)) return;
  const bool folder = fs::is_directory(status);
  if (folder && (has_marks(target_) || fs::is_empty(target_, error))) return;
  throw ConfigError(
      {.what = folder ? fmt::format("this folder is not replaced, for it is not one with {}",
                                    fmt::join(marks_, " and "))
                      : "a folder is to be written here, and there is something else",
       .value = target_.string(),
       .remedy = "choose another name, or remove it yourself"});
}

void FolderWriter::make_partial() {
  partial_ = partial_path(target_);
  if (::mkdir(partial_.c_str(), 0777) != 0) {
    if (errno != EEXIST) throw file_error("a folder cannot be made", partial_, errno);
    throw StorageError({.what = "this folder is being written already",
                        .value = partial_.string(),
                        .remedy = "wait for it; if nobody writes it, remove it"});
  }
  lock_ = lock_folder(partial_);
}

FolderWriter::~FolderWriter() {
  std::error_code ignored;
  if (!finished_) fs::remove_all(partial_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void FolderWriter::finish() {
  if (finished_) throw StateError({.what = "this folder is finished", .value = target_.string()});
  if (!has_marks(partial_)) {
    throw StateError({.what = "the new folder is not complete",
                      .value = partial_.string(),
                      .remedy = fmt::format("it must have {}", fmt::join(marks_, " and "))});
  }
  sync_all(partial_);
  check_replaceable();  // much may have happened since the constructor
  fs::path old;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(target_, error))) {
    rename_or_throw(partial_, target_);
  } else {
    old = exchange(partial_, target_) ? partial_ : replace_by_two_renames(partial_, target_);
  }
  finished_ = true;
  sync_folder(target_.parent_path());
  if (old.empty()) return;
  fs::remove_all(old, error);
  if (error) log_warning("the former folder is left and cannot be removed: {}", old.string());
}

}  // namespace zeroshard
