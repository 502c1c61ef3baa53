// Reads element ranges of stored states, whoever wrote them in whatever pieces: only the chunks
// that they touch, each once, each checked before a byte of it is believed.
//
//   RangeReader reader(folder, manifest);
//   reader.read({{&state, Span(0, 768)}}, [&](std::size_t request, const Span& elements, bytes) {
//     std::memcpy(into + elements.begin(), bytes.data(), bytes.size());   // whole elements
//   });
//
// Beside the destination it holds one chunk. Who has memory for more lends it: then some is read
// ahead, in larger pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/checkpoint/read_ahead.h"

namespace zeroshard {

struct ReadOptions {
  // kSaveStagingBytes, aligned to 4096, for as long as the reader lives; null: one chunk of its
  // own.
  std::byte* memory = nullptr;
  // Nobody else on this host reads the same: then the kernel's cache is passed by.
  bool past_cache = false;
};

struct RangeRequest {
  const StoredState* state = nullptr;
  Span elements;  // of the tensor
};

class RangeReader {
 public:
  // Both must outlive it. Files without checksums are read unchecked, in pieces of a chunk's size.
  RangeReader(std::filesystem::path folder, const Manifest& manifest,
              const ReadOptions& options = {});

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
    ReadPlace place;
    std::size_t request = 0;
    std::int64_t element = 0;  // the first
    std::int64_t width = 1;    // bytes of one
  };
  struct Free {
    void operator()(std::byte* memory) const;
  };

  void append_parts(const RangeRequest& request, std::size_t number,
                    std::vector<Part>& parts) const;
  void read_parts(std::vector<Part> parts, const Take& take);
  std::vector<ReadPlace> places_of(const std::vector<Part>& parts) const;
  ReadPlace chunks_around(const ReadPlace& place) const;
  bool is_checked(std::size_t file) const { return !manifest_.files[file].chunks.empty(); }
  void check(const ReadPlace& place, const std::byte* bytes) const;

  const std::filesystem::path folder_;
  const Manifest& manifest_;
  const ReadOptions options_;
  std::unique_ptr<std::byte, Free> own_chunk_;
  ReadMemory memory_;
  std::uint64_t bytes_read_ = 0;
};

// "exp_avg of h.0.weight, and 2 more": the states that have elements in these bytes of a file.
std::string states_in(const Manifest& manifest, std::size_t file, const Span& bytes);

}  // namespace zeroshard
