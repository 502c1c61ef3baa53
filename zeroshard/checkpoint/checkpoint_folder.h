// Where the checkpoints of a run are: DIR/TAG/manifest.json for each of them, and DIR/latest with
// the tag of the last one.
//
//   find_checkpoint("runs/7");                    // what `latest` names
//   find_checkpoint("runs/7", "global_step100");
//   find_checkpoint("runs/7/global_step100");     // that folder itself
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

inline constexpr std::string_view kLatestFile = "latest";
inline constexpr std::string_view kBestFile = "best";

// Whether a folder of this name can be a checkpoint: a name and no path, not hidden, and none of
// those that unfinished folders have.
bool is_tag(std::string_view tag);

// Throws ConfigError where it is none.
void check_tag(std::string_view tag);

// The folder of one checkpoint: under the name that it has after a save that was cut short between
// two renames, if need be. What is not there is a ConfigError that says what is; a `latest` that
// names nothing is a StorageError.
std::filesystem::path find_checkpoint(const std::filesystem::path& folder,
                                      const std::string& tag = {});

// Whether the folder has a manifest.
bool is_checkpoint(const std::filesystem::path& folder);

// The tags of the checkpoints in a folder, the oldest first by what their manifests say; by the
// file's own time where that cannot be read.
std::vector<std::string> tags_in(const std::filesystem::path& root);

// What DIR/latest or DIR/best says; nothing where there is no such file. Bytes that are no tag are
// a StorageError.
std::optional<std::string> read_pointer(const std::filesystem::path& root,
                                        std::string_view pointer);

// Whoever dies when, a reader finds the old tag or the new one.
void write_pointer(const std::filesystem::path& root, std::string_view pointer,
                   const std::string& tag);

}  // namespace zeroshard
