// Files of tensors in the safetensors format, written and read in pieces: neither side ever holds
// more of a tensor than the caller's own buffer.
//
//   SafetensorsWriter writer(path, {{.name = "head", .dtype = DType::fp32, .shape = {8, 4}}}, {});
//   writer.write("head", first_half);
//   writer.write("head", second_half);
//   writer.finish();
//
//   const SafetensorsReader reader(path);
//   reader.read("head", 64, rows);  // rows.size() bytes from byte 64 of the tensor on
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/safetensors_header.h"

namespace zeroshard {

// Writes `path.partial` and renames it when it is complete and on the disk, so a reader of `path`
// sees the file before or the file after and never a part. Without finish() nothing is left.
class SafetensorsWriter {
 public:
  // Offsets in `entries` are ignored: the data lies in the order given. Wide element types first
  // keep every tensor aligned. Known lack of room is a StorageError before anything is written.
  SafetensorsWriter(std::filesystem::path path, std::vector<TensorEntry> entries,
                    const SafetensorsMetadata& metadata);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  const std::vector<TensorEntry>& entries() const noexcept { return entries_; }

  // Appends to one tensor. Pieces may have any size, and tensors may take turns; more bytes than
  // the tensor has is a StateError.
  void write(std::size_t index, std::span<const std::byte> bytes);
  void write(std::string_view name, std::span<const std::byte> bytes);

  // Every tensor must have all its bytes, else StateError.
  void finish();

 private:
  std::size_t index_of(std::string_view name) const;

  std::filesystem::path path_;
  std::vector<TensorEntry> entries_;
  std::map<std::string_view, std::size_t> index_;
  std::vector<std::uint64_t> written_;  // bytes, by entry
  std::uint64_t data_begin_ = 0;
  std::optional<File> partial_;  // until finish()
};

// Opens and checks a file; what is wrong with it is a StorageError that names it. Reading is safe
// from several threads at once.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  const SafetensorsMetadata& metadata() const noexcept { return header_.metadata; }

  // In the order of their data.
  const std::vector<TensorEntry>& entries() const noexcept { return header_.tensors; }
  const std::vector<UnreadableTensor>& unreadable() const noexcept { return header_.unreadable; }

  bool contains(std::string_view name) const { return index_.contains(name); }
  // Where offsets of entries count from, in bytes of the file.
  std::uint64_t data_begin() const noexcept { return data_begin_; }
  std::uint64_t file_bytes() const { return file_.size(); }

  // A name that is not in the file, or of an element type we do not have, is a ConfigError.
  const TensorEntry& entry(std::string_view name) const;

  // Fills `into` with the tensor's bytes from `begin_byte` on. Beyond its end is a StateError.
  void read(std::string_view name, std::uint64_t begin_byte, std::span<std::byte> into) const;

 private:
  File file_;
  SafetensorsHeader header_;
  std::map<std::string_view, std::size_t> index_;
  std::uint64_t data_begin_ = 0;
};

}  // namespace zeroshard
