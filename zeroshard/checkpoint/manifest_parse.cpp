// Reading a manifest that anybody may have written: nothing in it is believed before it is checked.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/file_name.h"
#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/json_view.h"
#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/checkpoint/manifest_checksum.h"

namespace zeroshard {
namespace {

constexpr std::size_t kMaxDimensions = 64;
constexpr std::uint64_t kLeastChunkBytes = 4096;
constexpr std::int64_t kMostRanks = 1 << 24;

// Before anything else is looked at: of another kind, or from a later version.
void refuse_others(const JsonView& root, const std::string& file) {
  if (root.at("format").text() != kManifestFormat) root.at("format").fail("is of another format");
  const std::uint64_t version = root.at("version").whole();
  if (version != kManifestVersion) {
    throw StorageError(
        {.what = fmt::format("this checkpoint is of version {} of the format, and "
                             "this ZeroShard reads version {}",
                             version, kManifestVersion),
         .value = file,
         .remedy = "read it with the ZeroShard that has written it, or a newer one"});
  }
  if (!root.has("needs")) return;
  root.at("needs").for_each([&](const JsonView& word) {
    throw StorageError(
        {.what = fmt::format("this checkpoint needs {}, which this ZeroShard does "
                             "not know",
                             json_quoted_short(word.text())),
         .value = file,
         .remedy = "read it with the ZeroShard that has written it, or a newer one"});
  });
}

StoredDType read_dtype(const JsonView& view) {
  const std::optional<StoredDType> dtype = StoredDType::of(view.text());
  if (!dtype || dtype->bits() % 8 != 0) view.fail("is no dtype that can be stored");
  return *dtype;
}

Texts read_texts(const JsonView& root, std::string_view member) {
  Texts texts;
  if (!root.has(member)) return texts;
  root.at(member).for_each_member(
      [&](std::string_view name, const JsonView& value) { texts.emplace(name, value.text()); });
  return texts;
}

RunNumbers read_numbers(const JsonView& root) {
  RunNumbers run;
  if (!root.has("run")) return run;
  root.at("run").for_each_member([&](std::string_view name, const JsonView& view) {
    const rapidjson::Value& value = view.value();
    const std::string key(name);
    if (value.IsInt64()) {
      run.set(key, value.GetInt64());
    } else if (value.IsUint64()) {
      run.set(key, value.GetUint64());
    } else {
      run.set(key, view.number());
    }
  });
  return run;
}

std::uint64_t read_chunk_bytes(const JsonView& view) {
  const std::uint64_t bytes = view.whole();
  if (!std::has_single_bit(bytes) || bytes < kLeastChunkBytes || bytes > kChunkBytes) {
    view.fail("is no power of two from 4096 to 1048576");
  }
  return bytes;
}

std::vector<StoredFile> read_files(const JsonView& view, std::uint64_t chunk_bytes) {
  std::vector<StoredFile> files;
  std::set<std::string, std::less<>> names;
  view.for_each([&](const JsonView& of) {
    const std::string_view name = of.at("name").text();
    if (!is_file_name(name)) of.at("name").fail("is no file of the folder");
    if (!names.emplace(name).second) of.at("name").fail("is there twice");
    const std::uint64_t bytes = of.at("bytes").whole();
    auto chunks = parse_checksums(of.at("chunks").text());
    if (!chunks || chunks->size() != bytes / chunk_bytes + (bytes % chunk_bytes != 0 ? 1 : 0)) {
      of.at("chunks").fail("has not one checksum for each chunk");
    }
    files.push_back({.name = std::string(name), .bytes = bytes, .chunks = std::move(*chunks)});
  });
  return files;
}

std::vector<std::int64_t> read_shape(const JsonView& view) {
  std::vector<std::int64_t> shape;
  if (view.size() > kMaxDimensions) view.fail("has more than 64 dimensions");
  // Bytes, so that no later product overflows.
  std::int64_t bytes = 8;
  view.for_each([&](const JsonView& extent) {
    shape.push_back(static_cast<std::int64_t>(extent.whole()));
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(shape.back(), 1), &bytes)) {
      view.fail("does not fit in 64 bits");
    }
  });
  return shape;
}

// What of each file is not described yet. A file that is nothing but a hole costs its maker
// nothing: no more may be read than it has.
class Undescribed {
 public:
  explicit Undescribed(const std::vector<StoredFile>& files) {
    for (const StoredFile& file : files) bytes_.push_back(file.bytes);
  }

  void take(std::size_t file, std::uint64_t bytes, const JsonView& by) {
    if (bytes > bytes_[file]) by.fail("describes bytes of its file that others describe too");
    bytes_[file] -= bytes;
  }

 private:
  std::vector<std::uint64_t> bytes_;
};

class TensorReader {
 public:
  TensorReader(const std::vector<StoredFile>& files, Undescribed& left)
      : files_(files), left_(left) {}

  StoredTensor read(const JsonView& view) const {
    StoredTensor tensor;
    tensor.name = view.at("name").text();
    tensor.kind = read_kind(view.at("kind").text());
    tensor.dtype = read_dtype(view.at("dtype"));
    tensor.shape = read_shape(view.at("shape"));
    if (view.has("updates")) tensor.updates = static_cast<std::int64_t>(view.at("updates").whole());
    if (view.has("scalars")) {
      view.at("scalars").for_each_member([&](std::string_view name, const JsonView& value) {
        tensor.scalars.emplace(name, value.number());
      });
    }
    const std::int64_t numel = tensor.numel();
    view.at("states").for_each_member([&](std::string_view name, const JsonView& state) {
      tensor.states.emplace(name, read_state(state, numel));
    });
    return tensor;
  }

 private:
  // An unknown kind is one of a later version, of which only the value can matter.
  static TensorKind read_kind(std::string_view word) {
    if (word == name_of(TensorKind::trained)) return TensorKind::trained;
    return word == name_of(TensorKind::frozen) ? TensorKind::frozen : TensorKind::buffer;
  }

  StoredState read_state(const JsonView& view, std::int64_t numel) const {
    StoredState state;
    state.dtype = read_dtype(view.at("dtype"));
    const JsonView pieces = view.at("pieces");
    state.pieces.reserve(pieces.size());
    std::int64_t reached = 0;
    pieces.for_each([&](const JsonView& piece) {
      state.pieces.push_back(read_piece(piece, numel, state.element_bytes()));
      const Span& elements = state.pieces.back().elements;
      if (elements.begin() < reached) piece.fail("overlaps the one before, or is out of order");
      reached = elements.end();
    });
    return state;
  }

  StoredPiece read_piece(const JsonView& view, std::int64_t numel,
                         std::uint64_t element_bytes) const {
    if (view.size() != 4) view.fail("is not [file, begin, end, offset]");
    std::array<std::uint64_t, 4> all{};
    std::size_t next = 0;
    view.for_each([&](const JsonView& number) { all[next++] = number.whole(); });
    const auto [file, begin, end, offset] = all;
    if (begin >= end || end > static_cast<std::uint64_t>(numel)) {
      view.fail("has elements that the tensor has not");
    }
    if (file >= files_.size()) view.fail("is in a file that is not listed");
    const std::uint64_t bytes = (end - begin) * element_bytes;  // fits: read_shape() has seen to it
    const std::uint64_t file_bytes = files_[file].bytes;
    if (offset > file_bytes || bytes > file_bytes - offset) view.fail("lies outside its file");
    if (offset % element_bytes != 0) view.fail("does not begin at a whole element");
    left_.take(file, bytes, view);
    return {.file = file,
            .elements = Span(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)),
            .offset = offset};
  }

  const std::vector<StoredFile>& files_;
  Undescribed& left_;
};

std::vector<StoredTensor> read_tensors(const JsonView& view, const std::vector<StoredFile>& files,
                                       Undescribed& left) {
  const TensorReader reader(files, left);
  std::vector<StoredTensor> tensors;
  std::set<std::string, std::less<>> names;
  view.for_each([&](const JsonView& of) {
    tensors.push_back(reader.read(of));
    if (!names.insert(tensors.back().name).second) {
      of.at("name").fail(fmt::format("{} is there twice", json_quoted_short(tensors.back().name)));
    }
  });
  return tensors;
}

std::vector<StoredBlob> read_blobs(const JsonView& root, const std::vector<StoredFile>& files,
                                   Undescribed& left) {
  std::vector<StoredBlob> blobs;
  if (!root.has("blobs")) return blobs;
  std::set<std::pair<std::string, int>> names;
  root.at("blobs").for_each([&](const JsonView& of) {
    StoredBlob blob{.name = std::string(of.at("name").text()), .rank = {}};
    if (of.has("rank")) blob.rank = static_cast<int>(of.at("rank").whole_below(kMostRanks));
    blob.file = static_cast<std::size_t>(
        of.at("file").whole_below(static_cast<std::int64_t>(files.size())));
    blob.offset = of.at("offset").whole();
    blob.bytes = of.at("bytes").whole();
    const std::uint64_t file_bytes = files[blob.file].bytes;
    if (blob.offset > file_bytes || blob.bytes > file_bytes - blob.offset) {
      of.fail("lies outside its file");
    }
    left.take(blob.file, blob.bytes, of);
    if (!names.emplace(blob.name, blob.rank.value_or(-1)).second) of.fail("is there twice");
    blobs.push_back(std::move(blob));
  });
  return blobs;
}

Texts read_aliases(const JsonView& root, const std::vector<StoredTensor>& tensors) {
  Texts aliases = read_texts(root, "aliases");
  if (aliases.empty()) return aliases;
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) names.insert(tensor.name);
  for (const auto& [alias, name] : aliases) {
    const auto what = [&, &alias = alias, &name = name](std::string_view problem) {
      root.at("aliases").fail(fmt::format("has {} for {}, {}", json_quoted_short(alias),
                                          json_quoted_short(name), problem));
    };
    if (!names.contains(name)) what("which is no tensor");
    if (names.contains(alias)) what("and is a tensor itself");
  }
  return aliases;
}

}  // namespace

Manifest parse_part(std::string_view text, const std::string& file) {
  if (!has_its_checksum(text)) {
    throw StorageError({.what = "this manifest is damaged: its checksum is another",
                        .value = file,
                        .remedy = "take another checkpoint, or fetch this one again"});
  }
  const JsonDocument document(text, file, "manifest of a checkpoint");
  const JsonView root = document.root();
  refuse_others(root, file);
  Manifest manifest;
  if (root.has("tag")) manifest.tag = root.at("tag").text();
  if (root.has("saved_at_ms")) {
    manifest.saved_at_ms = static_cast<std::int64_t>(root.at("saved_at_ms").whole());
  }
  if (root.has("ranks"))
    manifest.ranks = static_cast<int>(root.at("ranks").whole_below(kMostRanks));
  manifest.written_by = read_texts(root, "written_by");
  manifest.chunk_bytes = read_chunk_bytes(root.at("chunk_bytes"));
  manifest.files = read_files(root.at("files"), manifest.chunk_bytes);
  Undescribed left(manifest.files);
  manifest.tensors = read_tensors(root.at("tensors"), manifest.files, left);
  manifest.aliases = read_aliases(root, manifest.tensors);
  manifest.blobs = read_blobs(root, manifest.files, left);
  manifest.run = read_numbers(root);
  manifest.documents = read_texts(root, "documents");
  return manifest;
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  Manifest manifest = parse_part(text, file);
  check_complete(manifest, file);
  return manifest;
}

void check_complete(const Manifest& manifest, const std::string& file) {
  const auto refuse = [&](const StoredTensor& tensor, std::string_view state, std::int64_t from) {
    throw StorageError({.what = fmt::format("this checkpoint lacks elements of {}: {}, from {} on",
                                            state, json_quoted_short(tensor.name), from),
                        .value = file,
                        .remedy = "take another checkpoint, or fetch this one again"});
  };
  for (const StoredTensor& tensor : manifest.tensors) {
    const std::int64_t numel = tensor.numel();
    if (!tensor.states.contains(kValueState)) refuse(tensor, kValueState, 0);
    for (const auto& [name, state] : tensor.states) {
      std::int64_t reached = 0;
      for (const StoredPiece& piece : state.pieces) {
        if (piece.elements.begin() != reached) break;
        reached = piece.elements.end();
      }
      if (reached != numel) refuse(tensor, name, reached);
    }
  }
}

}  // namespace zeroshard
