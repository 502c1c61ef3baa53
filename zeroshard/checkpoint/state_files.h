// States of a model on the disk, whoever has put them there: a checkpoint of ours, or a model as
// HuggingFace lays it out, whose tensors have a value and nothing else.
//
//   StateFiles files = StateFiles::open("runs/7");          // or a tag's folder, or a model's
//   const StoredTensor* weight = files.find("h.0.weight");  // or an alias
//   files.reader().read({{&weight->states.at("value"), Span(0, 768)}}, take);
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/checkpoint/range_reader.h"

namespace zeroshard {

class StateFiles {
 public:
  // A folder without a model's files is looked at as one of checkpoints (checkpoint_folder.h).
  static StateFiles open(const std::filesystem::path& folder, const std::string& tag = {});
  static StateFiles open_checkpoint(const std::filesystem::path& folder,
                                    const std::string& tag = {});
  static StateFiles open_model(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  // Of a HuggingFace model: its tensors are frozen ones, and its files have no checksums.
  const Manifest& manifest() const { return *manifest_; }
  bool is_checkpoint() const { return is_checkpoint_; }

  // Tensors of a HuggingFace model whose element types are none of ours, by name.
  const std::vector<std::string>& unreadable() const { return unreadable_; }

  // By name or alias; null where there is none.
  const StoredTensor* find(std::string_view name) const;

  // Keeps the manifest in mind: it may outlive neither.
  RangeReader reader(const ReadOptions& options = {}) const {
    return {folder_, *manifest_, options};
  }

 private:
  StateFiles(std::filesystem::path folder, Manifest manifest, bool is_checkpoint);

  std::filesystem::path folder_;
  std::unique_ptr<const Manifest> manifest_;  // stays where it is when this is moved
  std::map<std::string_view, const StoredTensor*> index_;
  std::vector<std::string> unreadable_ = {};
  bool is_checkpoint_;
};

}  // namespace zeroshard
