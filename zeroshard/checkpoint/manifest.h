// What a checkpoint's manifest.json says: which bytes of which file are which elements of which
// tensor. docs/checkpoint_format.md is the format.
//
//   const Manifest manifest = parse_manifest(text, path);
//   const StoredState& value = manifest.tensors[0].states.at("value");
//   manifest.files[value.pieces[0].file].name;
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zeroshard/checkpoint/checksum.h"
#include "zeroshard/checkpoint/safetensors_dtype.h"
#include "zeroshard/layout/span.h"

namespace zeroshard {

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{256} << 20U;
inline constexpr int kManifestVersion = 1;
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20U;  // of what we write
// The name of the state that is a tensor's value; of trained parameters it is the master.
inline constexpr std::string_view kValueState = "value";

struct StoredPiece {
  std::size_t file = 0;  // in Manifest::files
  Span elements;         // of the flattened tensor
  std::uint64_t offset = 0;

  bool operator==(const StoredPiece&) const = default;
};

struct StoredState {
  StoredDType dtype;
  std::vector<StoredPiece> pieces;  // in order; together the whole tensor

  std::uint64_t element_bytes() const { return dtype.bytes(); }
  bool operator==(const StoredState&) const = default;
};

enum class TensorKind { trained, frozen, buffer };

std::string_view name_of(TensorKind kind);

using ByState = std::map<std::string, StoredState, std::less<>>;

struct StoredTensor {
  std::string name;
  TensorKind kind = TensorKind::trained;
  StoredDType dtype;  // what the model computes with
  std::vector<std::int64_t> shape;
  std::int64_t updates = 0;
  std::map<std::string, double> scalars = {};  // of an optimizer of the client's
  ByState states = {};

  std::int64_t numel() const;  // the product of the shape, which must fit
  bool operator==(const StoredTensor&) const = default;
};

struct StoredFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<Checksum> chunks = {};  // none: nobody knows them

  bool operator==(const StoredFile&) const = default;
};

struct StoredBlob {
  std::string name;
  std::optional<int> rank;
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  bool operator==(const StoredBlob&) const = default;
};

// Where the run was. Numbers keep what they are: a seed needs all of its 64 bits.
class RunNumbers {
 public:
  using Number = std::variant<std::int64_t, std::uint64_t, double>;

  // A double that is no number is a ConfigError: JSON has no word for it.
  void set(const std::string& name, const Number& value);

  // Nothing where it is missing, or no whole number of this size.
  std::optional<std::int64_t> whole(std::string_view name) const;
  std::optional<std::uint64_t> unsigned_whole(std::string_view name) const;
  std::optional<double> real(std::string_view name) const;

  const std::map<std::string, Number, std::less<>>& all() const { return numbers_; }
  bool operator==(const RunNumbers&) const = default;

 private:
  std::map<std::string, Number, std::less<>> numbers_;
};

using Texts = std::map<std::string, std::string, std::less<>>;

struct Manifest {
  std::string tag;
  std::int64_t saved_at_ms = 0;
  int ranks = 1;
  Texts written_by = {};
  std::uint64_t chunk_bytes = kChunkBytes;
  std::vector<StoredFile> files = {};
  std::vector<StoredTensor> tensors = {};
  Texts aliases = {};
  std::vector<StoredBlob> blobs = {};
  RunNumbers run = {};
  Texts documents = {};

  bool operator==(const Manifest&) const = default;
};

// The text, with its checksum at the end.
std::string format_manifest(const Manifest& manifest);

// Reads the text of a manifest that anybody may have written, and holds it to everything that the
// page of the format demands of one manifest alone. What is wrong is a StorageError that begins
// with `file`, the manifest's own path.
Manifest parse_manifest(std::string_view text, const std::string& file);

// The same for what one rank reports of its own file: its tensors need not be complete.
Manifest parse_part(std::string_view text, const std::string& file);

// Joins what ranks have reported. Rank 0's part has all tensors, and what is said once. Parts that
// do not speak of the same model are a StateError.
Manifest join_parts(std::vector<Manifest> parts);

// Throws StorageError where a tensor lacks elements. parse_manifest() has done it.
void check_complete(const Manifest& manifest, const std::string& file);

}  // namespace zeroshard
