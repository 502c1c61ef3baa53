// What must hold whatever text a manifest has. The fuzzer asks it of all it can think of; the
// checksum is put right first, or nothing would ever get past it.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/file_name.h"
#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/checkpoint/manifest_checksum.h"

namespace zeroshard {

// Who reads all of it reads no byte twice: what is described of a file is no more than it has.
inline std::string described_twice(const Manifest& manifest) {
  std::vector<std::uint64_t> left;
  for (const StoredFile& file : manifest.files) left.push_back(file.bytes);
  const auto take = [&](std::size_t file, std::uint64_t bytes) {
    if (bytes > left[file]) return false;
    left[file] -= bytes;
    return true;
  };
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const auto& [name, state] : tensor.states) {
      for (const StoredPiece& piece : state.pieces) {
        const auto elements = static_cast<std::uint64_t>(piece.elements.size());
        if (!take(piece.file, elements * state.element_bytes())) return "pieces over each other";
      }
    }
  }
  for (const StoredBlob& blob : manifest.blobs) {
    if (!take(blob.file, blob.bytes)) return "a blob over others";
  }
  return "";
}

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
  if (const std::string wrong = described_twice(manifest); !wrong.empty()) return wrong;
  // What was read can be written, and reads the same again.
  const std::string again = format_manifest(manifest);
  return parse_manifest(again, "again") == manifest ? "" : "written again it is another";
}

}  // namespace zeroshard
