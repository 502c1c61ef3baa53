#include "zeroshard/checkpoint/safetensors_header.h"

#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/json_events.h"

namespace zeroshard {
namespace {

[[noreturn]] void refuse(const TensorEntry& entry, std::string what) {
  throw ConfigError({.what = std::move(what),
                     .value = json_quoted_short(entry.name),
                     .remedy = "change the model's tensor before it is saved"});
}

std::uint64_t tensor_bytes(const TensorEntry& entry) {
  std::uint64_t bytes = entry.dtype.bytes();
  for (const std::int64_t extent : entry.shape) {
    if (extent < 0) refuse(entry, "a tensor to be saved has a negative extent");
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      refuse(entry, "a tensor to be saved does not fit in 64 bits");
    }
  }
  return bytes;
}

}  // namespace

void lay_out(std::vector<TensorEntry>& entries) {
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (TensorEntry& entry : entries) {
    if (entry.name == kMetadataKey) refuse(entry, "a tensor has the name of the metadata");
    if (!names.insert(entry.name).second) refuse(entry, "two tensors to be saved have one name");
    entry.begin = offset;
    if (__builtin_add_overflow(offset, tensor_bytes(entry), &offset) ||
        offset > std::numeric_limits<std::int64_t>::max() - 2 * kMaxSafetensorsHeaderBytes) {
      refuse(entry, "the tensors to be saved do not fit in one file");
    }
    entry.end = offset;
  }
}

std::string format_safetensors_header(const std::vector<TensorEntry>& entries,
                                      const SafetensorsMetadata& metadata) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) {
      pairs.push_back(json_quoted(key) + ":" + json_quoted(value));
    }
    members.push_back(fmt::format("\"{}\":{{{}}}", kMetadataKey, fmt::join(pairs, ",")));
  }
  for (const TensorEntry& entry : entries) {
    members.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                  json_quoted(entry.name), entry.dtype.name(),
                                  fmt::join(entry.shape, ","), entry.begin, entry.end));
  }
  std::string json = fmt::format("{{{}}}", fmt::join(members, ","));
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    throw ConfigError({.what = "the names and shapes of the tensors need more room than a "
                               "safetensors file has for them",
                       .value = fmt::format("{} bytes", json.size()),
                       .remedy = "save them in several files"});
  }
  std::string head;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    head.push_back(static_cast<char>((static_cast<std::uint64_t>(json.size()) >> shift) & 0xFFU));
  }
  return head + json;
}

void check_readable_header(std::string_view head, std::uint64_t data_bytes) {
  try {
    parse_safetensors_header(head.substr(kSafetensorsPrefixBytes), data_bytes, "the new file");
  } catch (const StorageError& error) {
    throw ConfigError({.what = "these tensors cannot be saved as safetensors",
                       .value = error.fault().what,
                       .remedy = "change the names, shapes or metadata"});
  }
}

}  // namespace zeroshard
