#include <array>
#include <string>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/safetensors.h"

namespace zeroshard {

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : file_(File::open_to_read(path)) {
  const std::uint64_t file_bytes = file_.size();
  if (file_bytes < kSafetensorsPrefixBytes) {
    throw StorageError({.what = "this is no safetensors file: it is too short",
                        .value = path.string(),
                        .remedy = "fetch or save it again"});
  }
  std::array<std::byte, kSafetensorsPrefixBytes> prefix{};
  file_.read_at(0, prefix);
  std::string json(safetensors_json_bytes(prefix, file_bytes, path.string()), '\0');
  file_.read_at(kSafetensorsPrefixBytes, std::as_writable_bytes(std::span(json)));
  data_begin_ = kSafetensorsPrefixBytes + json.size();
  header_ = parse_safetensors_header(json, file_bytes - data_begin_, path.string());
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
    index_.emplace(header_.tensors[i].name, i);
  }
}

const TensorEntry& SafetensorsReader::entry(std::string_view name) const {
  const auto found = index_.find(name);
  if (found != index_.end()) return header_.tensors[found->second];
  for (const UnreadableTensor& tensor : header_.unreadable) {
    if (tensor.name != name) continue;
    throw ConfigError({.what = fmt::format("tensor {} of {} has an element type that ZeroShard "
                                           "does not read",
                                           json_quoted_short(name), path().string()),
                       .value = tensor.dtype,
                       .remedy = "convert it to F32, BF16, F16, I32 or U8"});
  }
  throw ConfigError({.what = fmt::format("{} has no tensor of this name", path().string()),
                     .value = json_quoted_short(name),
                     .remedy = "check that the file belongs to the model"});
}

void SafetensorsReader::read(std::string_view name, std::uint64_t begin_byte,
                             std::span<std::byte> into) const {
  const TensorEntry& tensor = entry(name);
  if (begin_byte > tensor.bytes() || into.size() > tensor.bytes() - begin_byte) {
    throw StateError(
        {.what = fmt::format("tensor {} of {} has {} bytes", json_quoted_short(name),
                             path().string(), tensor.bytes()),
         .value = fmt::format("{} bytes from byte {} on were wanted", into.size(), begin_byte)});
  }
  file_.read_at(data_begin_ + tensor.begin + begin_byte, into);
}

}  // namespace zeroshard
