#include "zeroshard/checkpoint/state_files.h"

#include <system_error>
#include <utility>

#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/model_folder.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

bool has_model(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kModelFile, ignored) || fs::exists(folder / kModelIndexFile, ignored);
}

StoredTensor as_stored(const TensorEntry& entry, std::size_t file, std::uint64_t data_begin) {
  StoredTensor tensor{
      .name = entry.name, .kind = TensorKind::frozen, .dtype = entry.dtype, .shape = entry.shape};
  StoredState& value = tensor.states[std::string(kValueState)];
  value.dtype = tensor.dtype;
  if (entry.bytes() == 0) return tensor;
  const auto numel = static_cast<std::int64_t>(entry.bytes() / value.element_bytes());
  value.pieces.push_back(
      {.file = file, .elements = Span(0, numel), .offset = data_begin + entry.begin});
  return tensor;
}

}  // namespace

StateFiles::StateFiles(fs::path folder, Manifest manifest, bool is_checkpoint)
    : folder_(std::move(folder)),
      manifest_(std::make_unique<const Manifest>(std::move(manifest))),
      is_checkpoint_(is_checkpoint) {
  for (const StoredTensor& tensor : manifest_->tensors) index_.emplace(tensor.name, &tensor);
  for (const auto& [alias, name] : manifest_->aliases) {
    const auto found = index_.find(name);
    if (found != index_.end()) index_.emplace(alias, found->second);
  }
}

StateFiles StateFiles::open(const fs::path& folder, const std::string& tag) {
  const bool is_model = tag.empty() && has_model(folder) && !zeroshard::is_checkpoint(folder);
  return is_model ? open_model(folder) : open_checkpoint(folder, tag);
}

StateFiles StateFiles::open_checkpoint(const fs::path& folder, const std::string& tag) {
  const fs::path found = find_checkpoint(folder, tag);
  const fs::path path = found / kManifestFile;
  return {found, parse_manifest(read_text_file(path, kMaxManifestBytes), path.string()), true};
}

StateFiles StateFiles::open_model(const fs::path& folder) {
  const ModelFolder model = ModelFolder::open(folder);
  Manifest manifest;
  for (const SafetensorsReader& file : model.files()) {
    manifest.files.push_back({.name = file.path().filename().string(), .bytes = file.file_bytes()});
    for (const TensorEntry& entry : file.entries()) {
      // Where two files have the name, the index says which one it is.
      if (!model.contains(entry.name) || &model.entry(entry.name) != &entry) continue;
      manifest.tensors.push_back(as_stored(entry, manifest.files.size() - 1, file.data_begin()));
    }
  }
  StateFiles files(folder, std::move(manifest), false);
  for (const SafetensorsReader& file : model.files()) {
    for (const UnreadableTensor& tensor : file.unreadable())
      files.unreadable_.push_back(tensor.name);
  }
  return files;
}

const StoredTensor* StateFiles::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second;
}

}  // namespace zeroshard
