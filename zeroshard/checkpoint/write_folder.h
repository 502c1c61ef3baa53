// A folder that appears whole or not at all.
//
//   FolderWriter writer("out/model");
//   SafetensorsWriter tensors(writer.folder() / "model.safetensors", entries, {});
//   ...
//   write_text_file(writer.folder() / "config.json", text);
//   writer.finish();
//
// Everything is written into `DIR.partial-<pid>` beside DIR, synced, and renamed. An existing DIR
// is exchanged with the new one in a single step of the file system (renameat2); at no moment is
// there no complete DIR. File systems without that step get two renames: DIR to
// `DIR.replaced-<pid>`, then the new one to DIR.
//
// What a crash leaves:
//   before finish()             DIR as it was; DIR.partial-<pid>
//   between the two renames     no DIR; the old one whole as DIR.replaced-<pid>, the new one whole
//   as
//                               DIR.partial-<pid>
//   after                       DIR new; the old one under one of the two other names
// The next FolderWriter of DIR sets this right: it renames DIR.replaced-<pid> back where DIR is
// missing, and removes what dead writers left. ModelFolder::open only reads; where DIR is missing
// it says which folder to rename.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace zeroshard {

class FolderWriter {
 public:
  // `marks`: the files by which a folder is known as ours. The new one must have them at finish(),
  // and a folder that lacks one is somebody else's: replacing it is a ConfigError. Empty folders
  // may be replaced.
  explicit FolderWriter(std::filesystem::path target,
                        std::vector<std::string> marks = {"config.json", "model.safetensors"});
  // Without finish() nothing is left.
  ~FolderWriter();
  FolderWriter(const FolderWriter&) = delete;
  FolderWriter& operator=(const FolderWriter&) = delete;

  // Where to write; it exists and is empty at first.
  const std::filesystem::path& folder() const noexcept { return partial_; }

  // Puts the folder into place. When it returns the new one is on the disk.
  void finish();

 private:
  bool has_marks(const std::filesystem::path& folder) const;
  void check_replaceable() const;
  void make_partial();

  std::filesystem::path target_;
  std::vector<std::string> marks_;
  std::filesystem::path partial_;
  int lock_ = -1;  // held on the partial folder while this lives: the mark of a living writer
  bool finished_ = false;
};

// The second way of replacing, for file systems that cannot exchange names. `partial` becomes
// `target`, and `target` the path that is returned.
std::filesystem::path replace_by_two_renames(const std::filesystem::path& partial,
                                             const std::filesystem::path& target);

}  // namespace zeroshard
