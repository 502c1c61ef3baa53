#include "zeroshard/checkpoint/rank_file.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "zeroshard/checkpoint/safetensors_header.h"

namespace zeroshard {
namespace {

std::uint64_t width_of(const StateToSave& state) { return state.dtype.bytes(); }

std::uint64_t bytes_of(const StateToSave& state) {
  return static_cast<std::uint64_t>(state.elements.size()) * width_of(state);
}

// A state that is here as a whole looks like the tensor; a part says which one it is.
TensorEntry entry_of(const StateToSave& state, const TensorToSave& tensor) {
  TensorEntry entry{.name = fmt::format("{}/{}", state.state, tensor.name),
                    .dtype = state.dtype,
                    .shape = tensor.shape};
  const std::int64_t numel =
      std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies{});
  if (state.elements == Span(0, numel)) return entry;
  entry.name += fmt::format("[{}:{}]", state.elements.begin(), state.elements.end());
  entry.shape = {state.elements.size()};
  return entry;
}

void give(StagedFile& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> room = file.room();
    const std::size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    file.filled(count);
    bytes.remove_prefix(count);
  }
}

// Room is left in whole elements: a state begins at a multiple of their size, and slots are one.
void give(StagedFile& file, std::size_t number, const StateToSave& state, const CopyState& copy) {
  const auto width = static_cast<std::int64_t>(width_of(state));
  for (std::int64_t begin = state.elements.begin(); begin < state.elements.end();) {
    const std::span<std::byte> room = file.room();
    const std::int64_t count =
        std::min(static_cast<std::int64_t>(room.size()) / width, state.elements.end() - begin);
    copy(number, Span(begin, begin + count), room.data());
    file.filled(static_cast<std::size_t>(count * width));
    begin += count;
  }
}

}  // namespace

RankFile::RankFile(const SaveContents& contents, int rank)
    : contents_(contents), rank_(rank), offsets_(contents.states.size(), 0) {
  for (std::size_t i = 0; i < contents_.states.size(); ++i) {
    if (!contents_.states[i].elements.empty()) order_.push_back(i);
  }
  std::ranges::stable_sort(order_, std::greater{},
                           [&](std::size_t i) { return width_of(contents_.states[i]); });
  lay_out();
}

void RankFile::lay_out() {
  std::vector<TensorEntry> entries;
  std::uint64_t reached = 0;
  const auto place = [&](TensorEntry entry, std::uint64_t bytes) {
    entry.begin = reached;
    entry.end = reached += bytes;
    entries.push_back(std::move(entry));
    return entries.back().begin;
  };
  for (const std::size_t i : order_) {
    const StateToSave& state = contents_.states[i];
    offsets_[i] = place(entry_of(state, contents_.tensors.at(state.tensor)), bytes_of(state));
  }
  for (const BlobToSave& blob : contents_.blobs) {
    blobs_.push_back(place({.name = "blob/" + blob.name,
                            .dtype = DType::uint8,
                            .shape = {static_cast<std::int64_t>(blob.bytes.size())}},
                           blob.bytes.size()));
  }
  head_ = format_safetensors_header(entries, {{"format", "pt"}});
  check_readable_header(head_, reached);
  for (std::uint64_t& offset : offsets_) offset += head_.size();
  for (std::uint64_t& offset : blobs_) offset += head_.size();
  bytes_ = head_.size() + reached;
}

Manifest RankFile::write(const std::filesystem::path& folder, const CopyState& copy,
                         const SaveStaging& staging) const {
  StagedFile file(folder / fmt::format("rank_{:05}.safetensors", rank_), bytes_, staging);
  give(file, head_);
  for (const std::size_t i : order_) give(file, i, contents_.states[i], copy);
  for (const BlobToSave& blob : contents_.blobs) give(file, blob.bytes);
  Manifest part;
  part.files.push_back(file.finish());
  append_states(part);
  append_blobs(part);
  if (rank_ != 0) return part;
  part.aliases = contents_.aliases;
  part.run = contents_.run;
  part.documents = contents_.documents;
  part.written_by = contents_.written_by;
  return part;
}

// Rank 0 tells of all tensors, the others of those that they have some of.
void RankFile::append_states(Manifest& part) const {
  std::vector<StoredTensor> all;
  for (const TensorToSave& tensor : contents_.tensors) {
    all.push_back({.name = tensor.name,
                   .kind = tensor.kind,
                   .dtype = tensor.dtype,
                   .shape = tensor.shape,
                   .updates = tensor.updates,
                   .scalars = tensor.scalars});
  }
  for (std::size_t i = 0; i < contents_.states.size(); ++i) {
    const StateToSave& state = contents_.states[i];
    StoredState& stored = all[state.tensor].states[state.state];
    stored.dtype = state.dtype;
    if (state.elements.empty()) continue;
    stored.pieces.push_back({.file = 0, .elements = state.elements, .offset = offsets_[i]});
  }
  for (StoredTensor& tensor : all) {
    for (auto& [name, state] : tensor.states) {
      std::ranges::sort(state.pieces, {}, [](const StoredPiece& p) { return p.elements.begin(); });
    }
    if (rank_ == 0 || !tensor.states.empty()) part.tensors.push_back(std::move(tensor));
  }
}

void RankFile::append_blobs(Manifest& part) const {
  for (std::size_t i = 0; i < contents_.blobs.size(); ++i) {
    const BlobToSave& blob = contents_.blobs[i];
    part.blobs.push_back({.name = blob.name,
                          .rank = blob.of_this_rank ? std::optional(rank_) : std::nullopt,
                          .file = 0,
                          .offset = blobs_[i],
                          .bytes = blob.bytes.size()});
  }
}

}  // namespace zeroshard
