// What must hold whatever bytes a safetensors file has. The fuzzer asks it of all it can think of.
#pragma once

#include <array>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/safetensors_header.h"

namespace zeroshard {

// The header of a file that is all in memory.
inline SafetensorsHeader header_of_bytes(std::string_view file) {
  std::array<std::byte, kSafetensorsPrefixBytes> prefix{};
  if (file.size() >= prefix.size()) std::memcpy(prefix.data(), file.data(), prefix.size());
  const std::uint64_t json_bytes = safetensors_json_bytes(prefix, file.size(), "file");
  const std::string_view rest = file.substr(kSafetensorsPrefixBytes);
  return parse_safetensors_header(rest.substr(0, json_bytes), rest.size() - json_bytes, "file");
}

// Every tensor is as long as its shape says and lies in the data, none in another.
inline std::string misplaced(const SafetensorsHeader& header, std::uint64_t file_bytes) {
  std::uint64_t reached = 0;
  for (const TensorEntry& entry : header.tensors) {
    std::uint64_t bytes = entry.dtype.bytes();
    for (const std::int64_t extent : entry.shape) bytes *= static_cast<std::uint64_t>(extent);
    if (entry.begin < reached || entry.end < entry.begin || entry.end > file_bytes) return "place";
    if (entry.bytes() != bytes) return "size";
    reached = entry.end;
  }
  return "";
}

// The property that is broken, or "".
inline std::string broken_header_property(std::string_view file) {
  SafetensorsHeader header;
  try {
    header = header_of_bytes(file);
  } catch (const StorageError& error) {
    return std::string_view(error.what()).size() < 1000 ? "" : "an endless message";
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  if (const std::string wrong = misplaced(header, file.size()); !wrong.empty()) return wrong;
  if (!header.unreadable.empty()) return "";
  // What was read can be written, and reads the same again.
  const std::string head = format_safetensors_header(header.tensors, header.metadata);
  const std::uint64_t data_bytes = header.tensors.empty() ? 0 : header.tensors.back().end;
  const SafetensorsHeader again = parse_safetensors_header(
      std::string_view(head).substr(kSafetensorsPrefixBytes), data_bytes, "again");
  const bool same = again.tensors == header.tensors && again.metadata == header.metadata;
  return same ? "" : "written again it is another";
}

}  // namespace zeroshard
