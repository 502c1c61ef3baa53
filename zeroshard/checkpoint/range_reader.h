// Reads element ranges of stored states, whoever wrote them in whatever pieces: only the chunks
// that they touch, each once, each checked before a byte of it is believed. Beside the destination
// it holds one chunk.
//
//   RangeReader reader(folder, manifest);
//   reader.read({{&state, Span(0, 768)}}, [&](std::size_t request, const Span& elements, bytes) {
//     std::memcpy(into + elements.begin(), bytes.data(), bytes.size());   // whole elements
//   });
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/manifest.h"

namespace zeroshard {

struct RangeRequest {
  const StoredState* state = nullptr;
  Span elements;  // of the tensor
};

class RangeReader {
 public:
  // Both must outlive it. Files without checksums are read unchecked, in pieces of a chunk's size.
  RangeReader(std::filesystem::path folder, const Manifest& manifest);

  // Told for every part of a request, in the order in which they lie in the files.
  using Take = std::function<void(std::size_t request, const Span& elements,
                                  std::span<const std::byte> bytes)>;
  // Throws StorageError where a file is missing, short or damaged; what was told before is right.
  void read(const std::vector<RangeRequest>& requests, const Take& take);

  // A blob's bytes; nothing where there is none of this name and rank. More than 1 GiB is no blob
  // that anybody should hold in memory, and a StorageError.
  std::optional<std::string> read_blob(std::string_view name, std::optional<int> rank = {});

  // Throws StorageError unless every file is there with its size: so a missing one is noticed
  // before anything is changed.
  void check_files() const;

  // From the disk, so far; whole chunks.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  // Neighbouring bytes of one file that belong to one request.
  struct Part {
    std::size_t file = 0;
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    std::size_t request = 0;
    std::int64_t element = 0;  // the first
  };
  struct Loaded {
    std::size_t file = 0;
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };

  void append_parts(const RangeRequest& request, std::size_t number,
                    std::vector<Part>& parts) const;
  std::span<const std::byte> bytes_from(const Part& part, std::uint64_t begin);
  void load(std::size_t file, std::uint64_t begin, std::uint64_t bytes);
  void load_chunk(std::size_t file, std::uint64_t chunk);
  const File& open(std::size_t file);

  const std::filesystem::path folder_;
  const Manifest& manifest_;
  std::vector<std::byte> chunk_;
  std::optional<Loaded> loaded_;
  std::optional<File> open_;
  std::size_t open_number_ = 0;
  std::uint64_t bytes_read_ = 0;
};

// "exp_avg of h.0.weight, and 2 more": the states that have elements in these bytes of a file.
std::string states_in(const Manifest& manifest, std::size_t file, const Span& bytes);

}  // namespace zeroshard
