#include "zeroshard/monitor/file_writer.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroshard/base/file_error.h"

namespace zeroshard {
namespace {

constexpr std::size_t kPendingBytes = 64 * 1024;

void make_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw file_error("cannot make the folder", folder.string(), error.value());
}

int open_for_writing(const std::string& path, bool append) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC);
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags, 0666);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) throw file_error("cannot open the file", path, errno);
  return descriptor;
}

bool holds_nothing(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_size == 0;
}

// Looked at through a descriptor of its own, since the writing one cannot read; one that does not
// wait, should the path be a pipe.
bool ends_inside_line(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  char last = '\n';
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  const bool read = size > 0 && ::pread(descriptor, &last, 1, size - 1) == 1;
  ::close(descriptor);
  return read && last != '\n';
}

// False where it is no file that could be cut.
bool cut_end(int descriptor, std::size_t bytes) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  return ::ftruncate(descriptor, status.st_size - static_cast<off_t>(bytes)) == 0;
}

bool is_plain_or_new(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  return type == std::filesystem::file_type::not_found ||
         type == std::filesystem::file_type::regular;
}

void write_whole_file(const std::string& path, std::string_view text) {
  FileWriter file(path);
  file.append(text);
  file.close();
}

}  // namespace

FileWriter::FileWriter(std::string path, FileWriterOptions options)
    : path_(std::move(path)), whole_lines_(options.whole_lines) {
  if (options.make_folders) make_folder_of(path_);
  const bool cut_short = options.append && options.whole_lines && ends_inside_line(path_);
  if (cut_short) pending_ = "\n";  // before the file is open: this may throw
  descriptor_ = open_for_writing(path_, options.append);
  was_empty_ = holds_nothing(descriptor_);
}

FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  try {
    flush();
  } catch (...) {  // a destructor has nobody to tell
  }
  ::close(descriptor_);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      pending_(std::move(other.pending_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      was_empty_(other.was_empty_),
      whole_lines_(other.whole_lines_) {}

void FileWriter::append(std::string_view text) {
  if (pending_.size() >= kPendingBytes) flush();
  pending_ += text;
}

// Of so many bytes of pending_ that are in the file: those up to a line's end, the others being
// taken back where that is possible.
std::size_t FileWriter::kept_of(std::size_t written) const {
  if (!whole_lines_ || written == 0) return written;
  const auto line_end = pending_.rfind('\n', written - 1);
  const std::size_t whole = line_end == std::string::npos ? 0 : line_end + 1;
  return whole < written && cut_end(descriptor_, written - whole) ? whole : written;
}

void FileWriter::flush() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    const auto written = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : EIO;
      pending_.erase(0, kept_of(done));
      throw file_error("cannot write to the file", path_, error);
    }
    done += static_cast<std::size_t>(written);
  }
  pending_.clear();
}

void FileWriter::close() {
  if (descriptor_ < 0) return;
  flush();
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) {
    throw file_error("cannot close the file", path_, errno);
  }
}

void replace_file(const std::string& path, std::string_view text) {
  if (!is_plain_or_new(path)) return write_whole_file(path, text);
  const std::string aside = fmt::format("{}.{}.part", path, ::getpid());
  try {
    write_whole_file(aside, text);
    if (std::rename(aside.c_str(), path.c_str()) != 0) {
      throw file_error("cannot rename the finished file to", path, errno);
    }
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
}

}  // namespace zeroshard
