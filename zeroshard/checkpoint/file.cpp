#include "zeroshard/checkpoint/file.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"

namespace zeroshard {
namespace {

// Linux moves at most 2 GiB less a page per call; a round number below it keeps requests aligned.
constexpr std::size_t kLargestTransfer = std::size_t{1} << 30U;

// What reads and writes past the kernel's cache are made of.

// Asks for the lock that says "being written". File systems without locks are trusted.
bool held_by_another(int descriptor) {
  return ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Whether the path still names the file we opened: another writer may have finished and renamed it
// between our open and our lock.
bool still_there(int descriptor, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw file_error("a folder cannot be opened", folder, errno);
  const int error_number = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // Some file systems (FUSE, network ones) do not sync folders and say so: nothing is lost by it.
  if (error_number != 0 && error_number != EINVAL && error_number != ENOTSUP) {
    throw file_error("a folder cannot be synced", folder, error_number);
  }
}

File::File(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

File File::open_to_read(const std::filesystem::path& path) { return open_to_read(path, 0); }

File File::open_to_read_directly(const std::filesystem::path& path) {
  return open_to_read(path, O_DIRECT);
}

File File::open_to_read(const std::filesystem::path& path, int flags) {
  // O_NONBLOCK: opening a pipe would wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
  if (descriptor < 0 && errno == EINVAL && flags != 0) return open_to_read(path, 0);
  if (descriptor < 0) throw file_error("a file cannot be opened", path, errno);
  File file(path, descriptor);
  file.direct_ = flags != 0;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw file_error("a file cannot be read", path, errno);
  if (!S_ISREG(status.st_mode)) {
    throw StorageError({.what = "a file is expected, and this is none",
                        .value = path.string(),
                        .remedy = "name a regular file"});
  }
  return file;
}

File File::open_to_write(const std::filesystem::path& path) { return open_to_write(path, 0); }

File File::open_to_write_directly(const std::filesystem::path& path) {
  return open_to_write(path, O_DIRECT);
}

File File::open_to_write(const std::filesystem::path& path, int flags) {
  while (true) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0666);
    if (descriptor < 0 && errno == EINVAL && flags != 0) return open_to_write(path, 0);
    if (descriptor < 0) throw file_error("a file cannot be made", path, errno);
    File file(path, descriptor);
    file.direct_ = flags != 0;
    if (held_by_another(descriptor)) {
      throw StorageError({.what = "another process is writing this file",
                          .value = path.string(),
                          .remedy = "wait for it, or choose another folder"});
    }
    if (!still_there(descriptor, path)) continue;
    // Devices, such as /dev/full, have no length to cut.
    if (::ftruncate(descriptor, 0) != 0 && errno != EINVAL) {
      throw file_error("a file cannot be emptied", path, errno);
    }
    return file;
  }
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(other.direct_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(direct_, other.direct_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::uint64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    throw file_error("a file's size cannot be read", path_, errno);
  }
  return static_cast<std::uint64_t>(status.st_size);
}

// At least one byte, or a StorageError.
std::size_t File::read_some(std::uint64_t offset, std::byte* into, std::size_t wanted) const {
  while (true) {
    const ssize_t got =
        ::pread(descriptor_, into, std::min(wanted, kLargestTransfer), static_cast<off_t>(offset));
    if (got > 0) return static_cast<std::size_t>(got);
    if (got < 0 && errno == EINTR) continue;
    // Some file systems find out only here that they cannot.
    if (got < 0 && errno == EINVAL && stop_direct()) continue;
    if (got < 0) throw file_error("a file cannot be read", path_, errno);
    throw StorageError(
        {.what = fmt::format("a file ended at byte {}, before what it should hold", offset),
         .value = path_.string(),
         .remedy = "fetch or write it again; was it changed while being read?"});
  }
}

void File::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const std::size_t got = read_some(offset, into.data(), into.size());
    offset += got;
    into = into.subspan(got);
  }
}

void File::read_block(std::uint64_t offset, std::span<std::byte> into) const {
  if (!direct_) return read_at(offset, into);
  for (std::size_t done = 0; done < into.size();) {
    const std::size_t left = into.size() - done;
    const std::size_t rounded = (left + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    done += std::min(left, read_some(offset + done, into.data() + done, rounded));
    // What is left of a block that was read in part is not aligned any more.
    if (done < into.size() && done % kBlockBytes != 0) {
      stop_direct();
      return read_at(offset + done, into.subspan(done));
    }
  }
}

void File::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t wanted = std::min(bytes.size(), kLargestTransfer);
    const ssize_t put = ::pwrite(descriptor_, bytes.data(), wanted, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    // Some file systems find out only here that they cannot.
    if (put < 0 && errno == EINVAL && stop_direct()) continue;
    if (put <= 0) throw file_error("a file cannot be written", path_, put < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

bool File::stop_direct() const {
  if (!direct_) return false;
  direct_ = false;
  const int flags = ::fcntl(descriptor_, F_GETFL);
  return flags >= 0 && ::fcntl(descriptor_, F_SETFL, flags & ~O_DIRECT) == 0;
}

bool File::reserve(std::uint64_t bytes) {
  if (bytes == 0 || ::fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes)) == 0) return true;
  if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == EINTR) return false;
  throw file_error("there is no room for a file", path_, errno);
}

void File::truncate(std::uint64_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0) return;
  throw file_error("a file cannot be cut to its size", path_, errno);
}

void File::start_sync(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (direct_) return;
  (void)::sync_file_range(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                          SYNC_FILE_RANGE_WRITE);
}

void File::expect_reads_in_order() const noexcept {
  (void)::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
}

void File::sync() {
  if (::fsync(descriptor_) != 0) throw file_error("a file cannot be synced", path_, errno);
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  File file = File::open_to_write(path);
  file.write_at(0, std::as_bytes(std::span(text)));
  file.sync();
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  const File file = File::open_to_read(path);
  const std::uint64_t bytes = file.size();
  if (bytes > limit_bytes) {
    throw StorageError({.what = fmt::format("a file is larger than the {} it may have",
                                            human_bytes(static_cast<std::int64_t>(limit_bytes))),
                        .value = path.string(),
                        .remedy = "check that it is the right file"});
  }
  std::string text(bytes, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace zeroshard
