// The head of a safetensors file: 8 bytes little-endian that say how long the JSON is, the JSON,
// then the data. https://github.com/huggingface/safetensors has the format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/checkpoint/safetensors_dtype.h"

namespace zeroshard {

struct TensorEntry {
  std::string name;
  StoredDType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;

  std::uint64_t bytes() const noexcept { return end - begin; }
  bool operator==(const TensorEntry&) const = default;
};

// A tensor of an element type that the format has and ZeroShard has not, such as I64 or BOOL. It is
// checked like the others and cannot be read.
struct UnreadableTensor {
  std::string name;
  std::string dtype;  // the file's word
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in the order of their data
  std::vector<UnreadableTensor> unreadable;
  SafetensorsMetadata metadata;
};

inline constexpr std::uint64_t kSafetensorsPrefixBytes = 8;
// The limit of the format's own library: more is an attack or a mistake.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// The bytes of JSON that the first 8 bytes promise. What is wrong with them is a StorageError;
// `file` is what the message calls the file.
std::uint64_t safetensors_json_bytes(std::span<const std::byte, kSafetensorsPrefixBytes> prefix,
                                     std::uint64_t file_bytes, std::string_view file);

// Reads the JSON and holds it to `data_bytes` of data: tensors lie one behind the other without
// overlap or hole, each as large as its shape says. Anything else is a StorageError.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           std::string_view file);

// Gives the entries their places, one behind the other in the order given. Names that repeat and
// shapes that are negative or do not fit in 64 bits are a ConfigError.
void lay_out(std::vector<TensorEntry>& entries);

// The head as it stands in the file: prefix, JSON, and spaces up to a multiple of 8.
std::string format_safetensors_header(const std::vector<TensorEntry>& entries,
                                      const SafetensorsMetadata& metadata);

// What is written must be readable: a name that is no UTF-8, say, is a ConfigError here and not a
// surprise years later.
void check_readable_header(std::string_view head, std::uint64_t data_bytes);

}  // namespace zeroshard
