#include "zeroshard/checkpoint/write_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/file.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial-";
constexpr std::string_view kReplaced = ".replaced-";

fs::path beside(const fs::path& target, std::string_view kind) {
  fs::path path = target;
  return path += fmt::format("{}{}", kind, ::getpid());
}

// Without the slash at the end and with a folder in front, so that names beside it can be made.
fs::path normal(const fs::path& target) {
  fs::path path = fs::absolute(target).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.has_filename()) return path;
  throw ConfigError({.what = "a folder is to be written here",
                     .value = target.string(),
                     .remedy = "name a folder below it"});
}

// The process that made `TARGET<kind><pid>`, or nothing where the name is another one.
std::optional<pid_t> writer_of(const fs::path& path, const fs::path& target,
                               std::string_view kind) {
  const std::string name = path.filename().string();
  const std::string start = target.filename().string() + std::string(kind);
  if (!name.starts_with(start)) return std::nullopt;
  pid_t pid = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + start.size(), end, pid);
  return error == std::errc{} && stopped == end && pid > 0 ? std::optional(pid) : std::nullopt;
}

std::vector<fs::path> leftovers(const fs::path& target, std::string_view kind) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(target.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    if (writer_of(it->path(), target, kind)) found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// A descriptor that holds the folder's lock; -1 where a living writer has it or there are no locks.
int lock_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  return -1;
}

// Only where the lock is free and the process gone: on a shared disk either alone proves nothing.
bool abandoned(const fs::path& folder, pid_t writer) {
  if (writer != ::getpid() && !(::kill(writer, 0) != 0 && errno == ESRCH)) return false;
  const int lock = lock_folder(folder);
  if (lock >= 0) ::close(lock);
  return lock >= 0;
}

void remove_leftovers(const fs::path& target, std::string_view kind) {
  for (const fs::path& path : leftovers(target, kind)) {
    if (!abandoned(path, *writer_of(path, target, kind))) continue;
    std::error_code error;
    fs::remove_all(path, error);
    if (error) log_warning("{} is left over and cannot be removed", path.string());
  }
}

void recover(const fs::path& target) {
  const fs::path kept = interrupted_replacement(target);
  if (!kept.empty() && abandoned(kept, *writer_of(kept, target, kReplaced))) {
    std::error_code error;
    fs::rename(kept, target, error);
    if (error) throw file_error("a folder cannot be renamed back", kept, error.value());
    log_warning("{} was missing after a save that was cut short; its last version is back",
                target.string());
  }
  remove_leftovers(target, kPartial);
  std::error_code ignored;
  if (fs::exists(target, ignored)) remove_leftovers(target, kReplaced);
}

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

fs::path interrupted_replacement(const fs::path& target) {
  const fs::path path = normal(target);
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored))) return {};
  const std::vector<fs::path> kept = leftovers(path, kReplaced);
  return kept.empty() ? fs::path{} : kept.back();
}

fs::path replace_by_two_renames(const fs::path& partial, const fs::path& target) {
  fs::path old = beside(target, kReplaced);
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
    : target_(normal(target)), marks_(std::move(marks)) {
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
  partial_ = beside(target_, kPartial);
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
