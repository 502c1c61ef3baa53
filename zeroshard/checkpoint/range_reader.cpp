#include "zeroshard/checkpoint/range_reader.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/utf8.h"
#include "zeroshard/layout/overlap.h"

namespace zeroshard {
namespace {

constexpr std::uint64_t kMaxBlobBytes = std::uint64_t{1} << 30U;
constexpr const char* kTakeAnother = "take another checkpoint, or fetch this file again";

// The pieces that may have some of `wanted`: of thousands, those of a few ranks.
std::span<const StoredPiece> pieces_around(const StoredState& state, const Span& wanted) {
  const auto& all = state.pieces;
  const auto first = std::ranges::upper_bound(
      all, wanted.begin(), {}, [](const StoredPiece& piece) { return piece.elements.end(); });
  const auto last =
      std::ranges::lower_bound(first, all.end(), wanted.end(), {},
                               [](const StoredPiece& piece) { return piece.elements.begin(); });
  return {first, last};
}

}  // namespace

std::string states_in(const Manifest& manifest, std::size_t file, const Span& bytes) {
  std::string first;
  std::size_t found = 0;
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const auto& [name, state] : tensor.states) {
      for (const StoredPiece& piece : state.pieces) {
        const auto begin = static_cast<std::int64_t>(piece.offset);
        const auto size = piece.elements.size() * static_cast<std::int64_t>(state.element_bytes());
        if (piece.file != file || bytes.intersect(Span(begin, begin + size)).empty()) continue;
        if (found++ == 0) first = fmt::format("{} of {}", name, shortened(tensor.name, 80));
      }
    }
  }
  if (found == 0) return "no tensor among it";
  return found == 1 ? first : fmt::format("{}, and {} more", first, found - 1);
}

RangeReader::RangeReader(std::filesystem::path folder, const Manifest& manifest)
    : folder_(std::move(folder)), manifest_(manifest), chunk_(manifest.chunk_bytes) {}

void RangeReader::check_files() const {
  for (const StoredFile& file : manifest_.files) {
    const std::filesystem::path path = folder_ / file.name;
    std::error_code error;
    const std::uint64_t bytes = std::filesystem::file_size(path, error);
    if (error) {
      throw StorageError({.what = "a file of this checkpoint is missing",
                          .value = path.string() + " (" + error.message() + ")",
                          .remedy = kTakeAnother});
    }
    if (bytes == file.bytes) continue;
    throw StorageError({.what = fmt::format("a file of this checkpoint has {} bytes, and {} were "
                                            "written",
                                            bytes, file.bytes),
                        .value = path.string(),
                        .remedy = kTakeAnother});
  }
}

void RangeReader::append_parts(const RangeRequest& request, std::size_t number,
                               std::vector<Part>& parts) const {
  const std::span<const StoredPiece> pieces = pieces_around(*request.state, request.elements);
  std::vector<Span> stored;
  for (const StoredPiece& piece : pieces) stored.push_back(piece.elements);
  const std::uint64_t width = request.state->element_bytes();
  std::int64_t covered = 0;
  for (const Overlap& overlap : overlaps({request.elements}, stored)) {
    const StoredPiece& piece = pieces[overlap.stored];
    const std::int64_t skipped = overlap.span.begin() - piece.elements.begin();
    parts.push_back({.file = piece.file,
                     .begin = piece.offset + static_cast<std::uint64_t>(skipped) * width,
                     .bytes = static_cast<std::uint64_t>(overlap.span.size()) * width,
                     .request = number,
                     .element = overlap.span.begin()});
    covered += overlap.span.size();
  }
  ZS_CHECK_EQ(covered, request.elements.size(), "elements are wanted that no tensor has");
}

void RangeReader::read(const std::vector<RangeRequest>& requests, const Take& take) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < requests.size(); ++i) append_parts(requests[i], i, parts);
  std::ranges::sort(parts, {}, [](const Part& part) { return std::tuple(part.file, part.begin); });
  for (const Part& part : parts) {
    const auto width = static_cast<std::int64_t>(requests[part.request].state->element_bytes());
    for (std::uint64_t done = 0; done < part.bytes;) {
      const std::span<const std::byte> bytes = bytes_from(part, part.begin + done);
      const std::int64_t element = part.element + static_cast<std::int64_t>(done) / width;
      const std::int64_t count = static_cast<std::int64_t>(bytes.size()) / width;
      take(part.request, Span(element, element + count), bytes);
      done += bytes.size();
    }
  }
}

std::optional<std::string> RangeReader::read_blob(std::string_view name, std::optional<int> rank) {
  for (const StoredBlob& blob : manifest_.blobs) {
    if (blob.name != name || blob.rank != rank) continue;
    if (blob.bytes > kMaxBlobBytes) {
      throw StorageError({.what = fmt::format("the blob {} of this checkpoint is too large",
                                              shortened(blob.name, 80)),
                          .value = fmt::format("{} bytes in {}", blob.bytes, folder_.string()),
                          .remedy = kTakeAnother});
    }
    std::string bytes;
    while (bytes.size() < blob.bytes) {
      const Part all{.file = blob.file, .begin = blob.offset, .bytes = blob.bytes};
      const std::span<const std::byte> part = bytes_from(all, blob.offset + bytes.size());
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    return bytes;
  }
  return std::nullopt;
}

// Some bytes of the part from `begin` on, at most a chunk.
std::span<const std::byte> RangeReader::bytes_from(const Part& part, std::uint64_t begin) {
  const std::uint64_t end = part.begin + part.bytes;
  if (manifest_.files[part.file].chunks.empty()) {
    load(part.file, begin, std::min(end - begin, manifest_.chunk_bytes));
  } else {
    load_chunk(part.file, begin / manifest_.chunk_bytes);
  }
  const std::uint64_t skipped = begin - loaded_->begin;
  return std::span(chunk_).subspan(skipped, std::min(loaded_->bytes - skipped, end - begin));
}

void RangeReader::load_chunk(std::size_t file, std::uint64_t chunk) {
  const StoredFile& of = manifest_.files[file];
  const std::uint64_t begin = chunk * manifest_.chunk_bytes;
  if (loaded_ && loaded_->file == file && loaded_->begin == begin) return;
  const std::uint64_t bytes = std::min(manifest_.chunk_bytes, of.bytes - begin);
  load(file, begin, bytes);
  if (checksum_of(std::span(chunk_).first(bytes)) == of.chunks[chunk]) return;
  loaded_.reset();
  const Span where(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + bytes));
  throw StorageError(
      {.what = fmt::format("a checkpoint is damaged: bytes {} to {} of a file are not "
                           "what was written ({})",
                           where.begin(), where.end(), states_in(manifest_, file, where)),
       .value = (folder_ / of.name).string(),
       .remedy = kTakeAnother});
}

void RangeReader::load(std::size_t file, std::uint64_t begin, std::uint64_t bytes) {
  loaded_.reset();
  open(file).read_at(begin, std::span(chunk_).first(bytes));
  bytes_read_ += bytes;
  loaded_ = {.file = file, .begin = begin, .bytes = bytes};
}

const File& RangeReader::open(std::size_t file) {
  if (!open_ || open_number_ != file) {
    open_.reset();
    open_.emplace(File::open_to_read(folder_ / manifest_.files[file].name));
    open_->expect_reads_in_order();
    open_number_ = file;
  }
  return *open_;
}

}  // namespace zeroshard
