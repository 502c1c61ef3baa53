#include "zeroshard/checkpoint/range_reader.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/utf8.h"
#include "zeroshard/checkpoint/file.h"
#include "zeroshard/layout/overlap.h"
#include "zeroshard/layout/save_memory.h"

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

void RangeReader::Free::operator()(std::byte* memory) const { std::free(memory); }

RangeReader::RangeReader(std::filesystem::path folder, const Manifest& manifest,
                         const ReadOptions& options)
    : folder_(std::move(folder)), manifest_(manifest), options_(options) {
  if (options_.memory != nullptr) {
    for (std::size_t i = 0; i < kSaveSlots; ++i) {
      memory_.slots.push_back(options_.memory + i * kSaveSlotBytes);
    }
    memory_.slot_bytes = kSaveSlotBytes;
    return;
  }
  own_chunk_.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, manifest_.chunk_bytes)));
  if (!own_chunk_) throw std::bad_alloc();
  memory_ = {.slots = {own_chunk_.get()}, .slot_bytes = manifest_.chunk_bytes};
}

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
    parts.push_back({.place = {.file = piece.file,
                               .begin = piece.offset + static_cast<std::uint64_t>(skipped) * width,
                               .bytes = static_cast<std::uint64_t>(overlap.span.size()) * width},
                     .request = number,
                     .element = overlap.span.begin(),
                     .width = static_cast<std::int64_t>(width)});
    covered += overlap.span.size();
  }
  ZS_CHECK_EQ(covered, request.elements.size(), "elements are wanted that no tensor has");
}

void RangeReader::read(const std::vector<RangeRequest>& requests, const Take& take) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < requests.size(); ++i) append_parts(requests[i], i, parts);
  read_parts(std::move(parts), take);
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
    const auto append = [&](std::size_t, const Span&, std::span<const std::byte> part) {
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    };
    read_parts({{.place = {.file = blob.file, .begin = blob.offset, .bytes = blob.bytes}}}, append);
    return bytes;
  }
  return std::nullopt;
}

// Place by place, and of each what all parts want of it: parts may lie over each other.
void RangeReader::read_parts(std::vector<Part> parts, const Take& take) {
  std::erase_if(parts, [](const Part& part) { return part.place.bytes == 0; });
  std::ranges::stable_sort(
      parts, {}, [](const Part& part) { return std::pair(part.place.file, part.place.begin); });
  const std::vector<ReadPlace> places = places_of(parts);
  const bool all_checked =
      std::ranges::all_of(places, [&](const ReadPlace& place) { return is_checked(place.file); });
  ReadAhead reads([this](std::size_t file) { return folder_ / manifest_.files[file].name; }, places,
                  memory_, options_.past_cache && all_checked);
  std::vector<const Part*> open;
  auto next = parts.begin();
  for (const ReadPlace& place : places) {
    const std::byte* const bytes = reads.next();
    bytes_read_ += place.bytes;
    check(place, bytes);
    for (; next != parts.end() && next->place.file == place.file && next->place.begin < place.end();
         ++next) {
      open.push_back(&*next);
    }
    for (const Part* part : open) {
      const std::uint64_t begin = std::max(part->place.begin, place.begin);
      const std::uint64_t end = std::min(part->place.end(), place.end());
      if (begin >= end) continue;
      const std::int64_t element =
          part->element + static_cast<std::int64_t>(begin - part->place.begin) / part->width;
      const std::int64_t count = static_cast<std::int64_t>(end - begin) / part->width;
      take(part->request, Span(element, element + count),
           {bytes + (begin - place.begin), end - begin});
    }
    std::erase_if(open, [&](const Part* part) { return part->place.end() <= place.end(); });
  }
}

// Whole chunks where there are checksums, else what is wanted and no more.
ReadPlace RangeReader::chunks_around(const ReadPlace& place) const {
  if (!is_checked(place.file)) return place;
  const std::uint64_t chunk = manifest_.chunk_bytes;
  const std::uint64_t begin = place.begin / chunk * chunk;
  const std::uint64_t end =
      std::min((place.end() + chunk - 1) / chunk * chunk, manifest_.files[place.file].bytes);
  return {.file = place.file, .begin = begin, .bytes = end - begin};
}

// What is read, in order and without reading anything twice, in pieces that fit into a slot.
std::vector<ReadPlace> RangeReader::places_of(const std::vector<Part>& parts) const {
  std::vector<ReadPlace> runs;
  for (const Part& part : parts) {
    const ReadPlace place = chunks_around(part.place);
    // Without chunks each part begins a run: a run's pieces then hold whole elements.
    const bool goes_on = !runs.empty() && is_checked(place.file) &&
                         runs.back().file == place.file && place.begin <= runs.back().end();
    if (!goes_on) {
      runs.push_back(place);
    } else if (place.end() > runs.back().end()) {
      runs.back().bytes = place.end() - runs.back().begin;
    }
  }
  std::vector<ReadPlace> places;
  for (const ReadPlace& run : runs) {
    for (std::uint64_t done = 0; done < run.bytes; done += memory_.slot_bytes) {
      places.push_back({.file = run.file,
                        .begin = run.begin + done,
                        .bytes = std::min<std::uint64_t>(run.bytes - done, memory_.slot_bytes)});
    }
  }
  return places;
}

void RangeReader::check(const ReadPlace& place, const std::byte* bytes) const {
  if (!is_checked(place.file)) return;
  const StoredFile& of = manifest_.files[place.file];
  for (std::uint64_t done = 0; done < place.bytes; done += manifest_.chunk_bytes) {
    const std::uint64_t begin = place.begin + done;
    const std::uint64_t size = std::min(manifest_.chunk_bytes, place.bytes - done);
    if (checksum_of({bytes + done, size}) == of.chunks[begin / manifest_.chunk_bytes]) continue;
    const Span where(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + size));
    throw StorageError(
        {.what = fmt::format("a checkpoint is damaged: bytes {} to {} of a file are "
                             "not what was written ({})",
                             where.begin(), where.end(), states_in(manifest_, place.file, where)),
         .value = (folder_ / of.name).string(),
         .remedy = kTakeAnother});
  }
}

}  // namespace zeroshard
