// A file's bytes as memory: read as they are touched, never copied whole, shared by all ranks of a
// host.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace zeroshard {

class MappedFile {
 public:
  // Throws ConfigError where the file is missing, no plain file, empty, or not ours to read.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::string& path() const { return path_; }
  // Valid as long as this object, unless somebody cuts the file short: the kernel then ends the
  // process with a bus error. Replacing the file by renaming another over it does no harm.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace zeroshard
