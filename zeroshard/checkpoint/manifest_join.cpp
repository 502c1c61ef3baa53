// From what each rank has written to one manifest.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/manifest.h"

namespace zeroshard {
namespace {

[[noreturn]] void refuse(const StoredTensor& tensor, std::size_t rank) {
  throw StateError({.what = fmt::format("ranks 0 and {} do not save the same model", rank),
                    .value = json_quoted_short(tensor.name),
                    .remedy = "give all ranks the same model"});
}

void add_pieces(StoredState& to, StoredState&& from, std::size_t first_file) {
  for (StoredPiece& piece : from.pieces) {
    piece.file += first_file;
    to.pieces.push_back(piece);
  }
}

class Join {
 public:
  explicit Join(Manifest first) : all_(std::move(first)) {
    for (std::size_t i = 0; i < all_.tensors.size(); ++i) index_.emplace(all_.tensors[i].name, i);
  }

  void add(Manifest&& part, std::size_t rank) {
    const std::size_t first_file = all_.files.size();
    std::ranges::move(part.files, std::back_inserter(all_.files));
    for (StoredTensor& tensor : part.tensors) add_tensor(std::move(tensor), first_file, rank);
    for (StoredBlob& blob : part.blobs) {
      blob.file += first_file;
      all_.blobs.push_back(std::move(blob));
    }
  }

  Manifest take() {
    for (StoredTensor& tensor : all_.tensors) {
      for (auto& [name, state] : tensor.states) {
        std::ranges::sort(state.pieces, {},
                          [](const StoredPiece& p) { return p.elements.begin(); });
      }
    }
    return std::move(all_);
  }

 private:
  void add_tensor(StoredTensor&& tensor, std::size_t first_file, std::size_t rank) {
    const auto found = index_.find(tensor.name);
    if (found == index_.end()) refuse(tensor, rank);
    StoredTensor& known = all_.tensors[found->second];
    if (known.shape != tensor.shape || known.dtype != tensor.dtype || known.kind != tensor.kind) {
      refuse(tensor, rank);
    }
    for (auto& [name, state] : tensor.states) {
      const auto [place, is_new] = known.states.try_emplace(name, StoredState{state.dtype, {}});
      if (place->second.dtype != state.dtype) refuse(tensor, rank);
      add_pieces(place->second, std::move(state), first_file);
    }
  }

  Manifest all_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace

Manifest join_parts(std::vector<Manifest> parts) {
  Join join(std::move(parts.at(0)));
  for (std::size_t rank = 1; rank < parts.size(); ++rank) join.add(std::move(parts[rank]), rank);
  return join.take();
}

}  // namespace zeroshard
