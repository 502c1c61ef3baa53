#include "zeroshard/trainer/mapped_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

class Descriptor {
 public:
  // Not blocking: opening a pipe that nobody writes to would wait for ever.
  explicit Descriptor(const std::string& path)
      : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void refuse(const std::string& what, const std::string& path,
                         const std::string& remedy) {
  throw ConfigError({.what = what, .value = path, .remedy = remedy});
}

[[noreturn]] void refuse_unreadable(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    refuse("no such data file", path, "check the path; it is looked for on every host");
  }
  refuse("cannot read the data file (" + std::generic_category().message(error) + ")", path,
         "check its permissions");
}

std::size_t size_of(const Descriptor& file, const std::string& path) {
  struct stat info {};
  if (fstat(file.number(), &info) != 0) refuse_unreadable(path, errno);
  if (S_ISDIR(info.st_mode)) refuse("the data file is a folder", path, "name the files in it");
  if (!S_ISREG(info.st_mode)) {
    refuse("the data file is no plain file", path, "write the data to a file first");
  }
  if (info.st_size == 0) refuse("the data file is empty", path, "leave it out, or write it again");
  return static_cast<std::size_t>(info.st_size);
}

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const Descriptor file(path_);
  if (file.number() < 0) refuse_unreadable(path_, errno);
  const std::size_t size = size_of(file, path_);
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) refuse_unreadable(path_, errno);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

}  // namespace zeroshard
