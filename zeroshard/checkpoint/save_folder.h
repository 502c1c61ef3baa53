// The folder that a job saves its checkpoints to, for as long as the job runs.
//
//   SaveFolder folder(comm, "runs/7", {.keep = 3});       // before training: is it there, for all?
//   CheckpointSave save(folder, {.tag = "global_step100"}, contents, comm);
//   save.run(copy, staging, comm);
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "zeroshard/checkpoint/save_lock.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard {

struct SaveFolderOptions {
  // After each save only so many of the last checkpoints are kept, and what `latest` and `best`
  // name. 0: all.
  std::size_t keep = 0;
  // With all others of this process that say so, it is one job (process_lock.h).
  bool shares_lock = false;
};

class SaveFolder {
 public:
  // Makes the folder where it is missing, locks it, removes what a dead job left, and looks whether
  // every rank sees it and may write there. All ranks throw the same StorageError where not.
  // Collective.
  SaveFolder(Communicator& comm, const std::filesystem::path& root, SaveFolderOptions options = {});

  const std::filesystem::path& root() const { return root_; }

  // On rank 0, before a save: the lock is still ours. Throws StorageError.
  void check_held() const;
  // On rank 0, after a save. What cannot be removed is a warning.
  void remove_old() const noexcept;
  // On rank 0: what died in the middle of a save is removed.
  void tidy() const;

 private:
  void make();
  void remove_all_but_kept() const;

  const std::filesystem::path root_;
  const SaveFolderOptions options_;
  std::shared_ptr<SaveLock> lock_;  // rank 0's
};

// Whether all ranks see the folder `root` that rank 0 sees, and may write into it; else all throw
// the same StorageError. Network file systems may show a new file some seconds late. Collective.
void check_folder_is_shared(Communicator& comm, const std::filesystem::path& root,
                            std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace zeroshard
