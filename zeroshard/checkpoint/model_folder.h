// A model as HuggingFace lays it out: one `model.safetensors`, or several files and
// `model.safetensors.index.json`, which says what lies where. Nothing is loaded before it is read.
//
//   const ModelFolder model = ModelFolder::open("gpt2");
//   model.read("wte.weight", 0, rows);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zeroshard/checkpoint/safetensors.h"

namespace zeroshard {

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kModelIndexFile = "model.safetensors.index.json";

class ModelFolder {
 public:
  // A folder without a model is a ConfigError; a damaged file, or one that the index names and that
  // is not there, a StorageError. Where both layouts are present the single file is the model, as
  // it is to HuggingFace.
  static ModelFolder open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const noexcept { return folder_; }

  // Sorted. Tensors of element types that we cannot read are not among them.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return file_of_.contains(name); }

  // A name that is not in the model is a ConfigError, as in SafetensorsReader.
  const TensorEntry& entry(std::string_view name) const;
  void read(std::string_view name, std::uint64_t begin_byte, std::span<std::byte> into) const;

  const std::vector<SafetensorsReader>& files() const noexcept { return files_; }

 private:
  explicit ModelFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void open_single();
  void open_indexed();
  const SafetensorsReader& file_with(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<SafetensorsReader> files_;
  std::map<std::string, std::size_t, std::less<>> file_of_;
};

// The weight_map of an index: tensor name to file name. File names that leave the folder, names
// given twice and all that is not such a map are a StorageError; `file` is the index's own name.
std::map<std::string, std::string> parse_model_index(std::string_view json, std::string_view file);

}  // namespace zeroshard
