// What must hold whatever text a manifest has. The fuzzer asks it of all it can think of; the
// checksum is put right first, or nothing would ever get past it.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/file_name.h"
#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/checkpoint/manifest_checksum.h"

namespace zeroshard {

// Every piece lies in its file, and every file in its folder.
inline std::string misplaced(const Manifest& manifest) {
  for (const StoredFile& file : manifest.files) {
    if (!is_file_name(file.name)) return "a file outside";
    const std::uint64_t chunks =
        file.bytes / manifest.chunk_bytes + (file.bytes % manifest.chunk_bytes != 0 ? 1 : 0);
    if (chunks != file.chunks.size()) return "chunks";
  }
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const auto& [name, state] : tensor.states) {
      std::int64_t elements = 0;
      for (const StoredPiece& piece : state.pieces) {
        if (piece.file >= manifest.files.size()) return "no such file";
        const std::uint64_t bytes =
            static_cast<std::uint64_t>(piece.elements.size()) * state.element_bytes();
        const std::uint64_t end = piece.offset + bytes;
        if (end < bytes || end > manifest.files[piece.file].bytes) return "a piece outside";
        elements += piece.elements.size();
      }
      if (elements != tensor.numel()) return "elements";
    }
  }
  return "";
}

// The property that is broken, or "". `body` is a manifest without its end.
inline std::string broken_manifest_property(std::string_view body) {
  Manifest manifest;
  try {
    manifest = parse_manifest(with_checksum(std::string(body)), "file");
  } catch (const StorageError& error) {
    return std::string_view(error.what()).size() < 1000 ? "" : "an endless message";
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  if (const std::string wrong = misplaced(manifest); !wrong.empty()) return wrong;
  // What was read can be written, and reads the same again.
  const std::string again = format_manifest(manifest);
  return parse_manifest(again, "again") == manifest ? "" : "written again it is another";
}

}  // namespace zeroshard
