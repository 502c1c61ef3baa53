#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/checkpoint/free_space.h"
#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/safetensors.h"

namespace zeroshard {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

// Better told now than after an hour of writing. A file system that names no sizes is trusted.
void check_room(const std::filesystem::path& path, std::uint64_t bytes) {
  const auto free = free_bytes(folder_of(path));
  if (!free || bytes <= *free) return;
  throw StorageError({.what = fmt::format("there is no room for the {} of this file, {} are free",
                                          human_bytes(static_cast<std::int64_t>(bytes)),
                                          human_bytes(static_cast<std::int64_t>(*free))),
                      .value = path.string(),
                      .remedy = "free some space, or choose another folder"});
}

std::filesystem::path path_aside(const std::filesystem::path& path) {
  std::filesystem::path partial = path;
  return partial += ".partial";
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<TensorEntry> entries,
                                     const SafetensorsMetadata& metadata)
    : path_(std::move(path)), entries_(std::move(entries)), written_(entries_.size(), 0) {
  lay_out(entries_);
  for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].name, i);
  const std::string head = format_safetensors_header(entries_, metadata);
  const std::uint64_t data_bytes = entries_.empty() ? 0 : entries_.back().end;
  data_begin_ = head.size();
  check_readable_header(head, data_bytes);
  check_room(path_, data_begin_ + data_bytes);
  partial_.emplace(File::open_to_write(path_aside(path_)));
  try {
    partial_->write_at(0, std::as_bytes(std::span(head)));
  } catch (...) {  // no destructor runs after a constructor that throws
    std::error_code ignored;
    std::filesystem::remove(partial_->path(), ignored);
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  std::error_code ignored;
  if (partial_) std::filesystem::remove(partial_->path(), ignored);
}

std::size_t SafetensorsWriter::index_of(std::string_view name) const {
  const auto found = index_.find(name);
  if (found != index_.end()) return found->second;
  throw StateError({.what = fmt::format("{} has no tensor of this name", path_.string()),
                    .value = json_quoted_short(name)});
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  write(index_of(name), bytes);
}

void SafetensorsWriter::write(std::size_t index, std::span<const std::byte> bytes) {
  if (!partial_ || index >= entries_.size()) {
    throw StateError({.what = fmt::format("{} is finished or has no such tensor", path_.string()),
                      .value = fmt::format("tensor number {}", index)});
  }
  const TensorEntry& entry = entries_[index];
  std::uint64_t& written = written_[index];
  if (bytes.size() > entry.bytes() - written) {
    throw StateError(
        {.what = fmt::format("tensor {} of {} got more than its {} bytes",
                             json_quoted_short(entry.name), path_.string(), entry.bytes()),
         .value = fmt::format("{} bytes behind {}", bytes.size(), written)});
  }
  partial_->write_at(data_begin_ + entry.begin + written, bytes);
  written += bytes.size();
}

void SafetensorsWriter::finish() {
  if (!partial_) throw StateError({.what = "this file is finished", .value = path_.string()});
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (written_[i] == entries_[i].bytes()) continue;
    throw StateError({.what = fmt::format("tensor {} of {} is not complete",
                                          json_quoted_short(entries_[i].name), path_.string()),
                      .value = fmt::format("{} of {} bytes", written_[i], entries_[i].bytes())});
  }
  partial_->sync();
  std::error_code error;
  std::filesystem::rename(partial_->path(), path_, error);
  if (error) throw file_error("a file cannot be renamed into place", path_, error.value());
  partial_.reset();
  sync_folder(folder_of(path_));
}

}  // namespace zeroshard
