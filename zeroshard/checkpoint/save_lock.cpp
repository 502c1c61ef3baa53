#include "zeroshard/checkpoint/save_lock.h"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <system_error>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/base/host_name.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/file.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxOwnerBytes = 1000;

// Different for every lock that was ever taken, and good to read.
std::string new_owner() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  return fmt::format("process {} on {}, since {:%Y-%m-%d %H:%M:%S} UTC ({})", ::getpid(),
                     host_name(), fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     ms.count());
}

// "" where nobody is named.
std::string owner_in(const fs::path& path) {
  try {
    return read_text_file(path, kMaxOwnerBytes);
  } catch (const StorageError&) {
    return {};
  }
}

bool is_at(int descriptor, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

[[noreturn]] void throw_held(const fs::path& path) {
  const std::string owner = owner_in(path);
  throw StorageError({.what = fmt::format("another job saves to this folder: {}",
                                          owner.empty() ? "one that does not say its name" : owner),
                      .value = path.parent_path().string(),
                      .remedy = "give each job a folder of its own, or wait for that one to end"});
}

// Locked, and still the file of that name: its last holder may have removed it meanwhile.
int open_and_lock(const fs::path& path) {
  while (true) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) throw file_error("a folder cannot be written to", path, errno);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(descriptor);
      throw_held(path);
    }
    if (is_at(descriptor, path)) return descriptor;
    ::close(descriptor);
  }
}

void write_owner(int descriptor, const std::string& owner, const fs::path& path) {
  const bool written =
      ::ftruncate(descriptor, 0) == 0 &&
      ::pwrite(descriptor, owner.data(), owner.size(), 0) == static_cast<ssize_t>(owner.size()) &&
      ::fsync(descriptor) == 0;
  if (!written) throw file_error("a folder cannot be written to", path, errno);
}

}  // namespace

SaveLock::SaveLock(const fs::path& folder)
    : path_(folder / kLockFile), owner_(new_owner()), descriptor_(open_and_lock(path_)) {
  const std::string before = owner_in(path_);
  if (before.find(fmt::format(" on {}, since ", host_name())) == std::string::npos &&
      !before.empty()) {
    log_warning(
        "{} was last held by {}, which did not say that it has ended; if it still runs, its "
        "next save will fail",
        folder.string(), before);
  }
  try {
    write_owner(descriptor_, owner_, path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SaveLock::~SaveLock() {
  // Removed while it is held, so that nobody takes a lock on a file that has gone.
  std::error_code ignored;
  if (is_at(descriptor_, path_) && owner_in(path_) == owner_) fs::remove(path_, ignored);
  ::close(descriptor_);
}

void SaveLock::check_held() const {
  if (is_at(descriptor_, path_)) {
    const std::string now = owner_in(path_);
    if (now == owner_) return;
    throw StorageError(
        {.what = fmt::format("another job has begun to save to this folder: {}", now),
         .value = path_.parent_path().string(),
         .remedy = "give each job a folder of its own"});
  }
  throw StorageError({.what = "the folder that is saved to was removed or replaced meanwhile",
                      .value = path_.parent_path().string(),
                      .remedy = "check the folder and its disk"});
}

}  // namespace zeroshard
