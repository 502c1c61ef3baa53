#include "zeroshard/checkpoint/model_folder.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/file_name.h"
#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/unfinished.h"

namespace zeroshard {
namespace {

constexpr std::uint64_t kMaxIndexBytes = 100'000'000;

[[noreturn]] void damaged_index(std::string_view file, const std::string& what) {
  throw StorageError({.what = "this is no sound index of a model: " + what,
                      .value = std::string(file),
                      .remedy = "fetch or save it again"});
}

// Takes `weight_map` and passes over everything else.
class IndexReader : public JsonEvents {
 public:
  explicit IndexReader(std::string_view file) : file_(file) {}

  bool found() const { return found_; }
  std::map<std::string, std::string> take() { return std::move(files_); }

  void open_object() override {
    if (depth_ == 0 || map_opens()) {
      in_map_ = depth_ == 1;
      found_ |= in_map_;
    } else {
      expect_text(false);
    }
    ++depth_;
  }
  void close_object() override {
    --depth_;
    in_map_ = false;
  }
  void open_list() override {
    expect_text(false);
    ++depth_;
  }
  void close_list() override { --depth_; }
  void key(std::string_view text) override {
    if (depth_ == 1 && text == "weight_map" && found_) damaged_index(file_, "two weight_maps");
    if (depth_ <= 2) key_ = text;
  }
  void text(std::string_view text) override {
    expect_text(true);
    if (!in_map_) return;
    check_file_name(text);
    if (!files_.emplace(key_, text).second) {
      damaged_index(file_, json_quoted_short(key_) + " is there twice");
    }
  }
  void number(std::string_view) override { expect_text(false); }
  void literal() override { expect_text(false); }

 private:
  bool map_opens() const { return depth_ == 1 && key_ == "weight_map"; }

  void expect_text(bool is_text) const {
    if (depth_ == 0) damaged_index(file_, "it is no JSON object");
    if (map_opens()) damaged_index(file_, "its weight_map is no object");
    if (in_map_ && !is_text) damaged_index(file_, json_quoted_short(key_) + " names no file");
  }

  // Files of the folder itself only: an index may come from anybody.
  void check_file_name(std::string_view name) const {
    if (!is_file_name(name))
      damaged_index(file_, json_quoted_short(name) + " is no file of the folder");
  }

  std::string_view file_;
  std::size_t depth_ = 0;
  bool in_map_ = false;
  bool found_ = false;
  std::string key_;
  std::map<std::string, std::string> files_;
};

bool is_unreadable(const SafetensorsReader& file, std::string_view name) {
  return std::any_of(file.unreadable().begin(), file.unreadable().end(),
                     [&](const UnreadableTensor& tensor) { return tensor.name == name; });
}

[[noreturn]] void throw_no_model(const std::filesystem::path& folder) {
  const std::filesystem::path kept = interrupted_replacement(folder);
  throw ConfigError({.what = fmt::format("there is no model here, neither {} nor {}", kModelFile,
                                         kModelIndexFile),
                     .value = folder.string(),
                     .remedy = kept.empty() ? "name the folder that holds a model's safetensors"
                                            : fmt::format("a save was cut short, rename {} back",
                                                          kept.string())});
}

}  // namespace

std::map<std::string, std::string> parse_model_index(std::string_view json, std::string_view file) {
  IndexReader reader(file);
  if (const std::optional<std::string> fault = read_json_events(json, reader)) {
    damaged_index(file, "it is no JSON, " + *fault);
  }
  if (!reader.found()) damaged_index(file, "it has no weight_map");
  return reader.take();
}

ModelFolder ModelFolder::open(const std::filesystem::path& folder) {
  ModelFolder model(folder);
  std::error_code ignored;
  if (std::filesystem::exists(folder / kModelFile, ignored)) {
    model.open_single();
  } else if (std::filesystem::exists(folder / kModelIndexFile, ignored)) {
    model.open_indexed();
  } else {
    throw_no_model(folder);
  }
  return model;
}

void ModelFolder::open_single() {
  files_.emplace_back(folder_ / kModelFile);
  for (const TensorEntry& entry : files_.front().entries()) file_of_.emplace(entry.name, 0);
}

void ModelFolder::open_indexed() {
  const std::filesystem::path index = folder_ / kModelIndexFile;
  std::map<std::string, std::size_t, std::less<>> number_of;
  for (const auto& [name, file] :
       parse_model_index(read_text_file(index, kMaxIndexBytes), index.string())) {
    const auto [place, is_new] = number_of.emplace(file, files_.size());
    if (is_new) files_.emplace_back(folder_ / file);
    const SafetensorsReader& reader = files_[place->second];
    if (reader.contains(name)) {
      file_of_.emplace(name, place->second);
    } else if (!is_unreadable(reader, name)) {
      damaged_index(index.string(), fmt::format("{} is not in {}", json_quoted_short(name),
                                                json_quoted_short(file)));
    }
  }
}

std::vector<std::string> ModelFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

const SafetensorsReader& ModelFolder::file_with(std::string_view name) const {
  const auto found = file_of_.find(name);
  if (found != file_of_.end()) return files_[found->second];
  for (const SafetensorsReader& file : files_) {
    if (is_unreadable(file, name)) return file;  // its entry() says what is the matter
  }
  throw ConfigError(
      {.what = fmt::format("the model in {} has no tensor of this name", folder_.string()),
       .value = json_quoted_short(name),
       .remedy = "check that the folder belongs to the model"});
}

const TensorEntry& ModelFolder::entry(std::string_view name) const {
  return file_with(name).entry(name);
}

void ModelFolder::read(std::string_view name, std::uint64_t begin_byte,
                       std::span<std::byte> into) const {
  file_with(name).read(name, begin_byte, into);
}

}  // namespace zeroshard
