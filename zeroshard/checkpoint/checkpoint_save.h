// One checkpoint on its way to the disk: every rank writes what it owns into a file of its own, all
// of them into a folder aside, and rank 0 puts it into its place when all is there.
//
//   CheckpointSave save(folder, {.tag = "global_step100"}, contents, comm);   // collective
//   save.run(copy, staging, comm);                                            // collective
//
// run() may be called on another thread, with a communicator that nobody else uses meanwhile: it
// talks to the other ranks only when its own file is on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/checkpoint/rank_file.h"
#include "zeroshard/checkpoint/save_folder.h"
#include "zeroshard/checkpoint/write_folder.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard {

struct SaveRequest {
  std::string tag;
  bool latest = true;  // `latest` names it then
  bool best = false;   // `best` does
};

class CheckpointSave {
 public:
  // Agrees on a folder, and looks whether there is room for all. All ranks throw the same error
  // where it cannot be: a StorageError, or a ConfigError for a tag or contents that cannot be
  // saved. The folder must outlive it. Collective.
  CheckpointSave(SaveFolder& folder, const SaveRequest& request, SaveContents contents,
                 Communicator& comm);
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;

  // Writes this rank's file, and when all ranks have, makes it a checkpoint. All ranks throw the
  // same StorageError where some rank could not; nothing is left then, and earlier checkpoints are
  // as they were. Once. Collective.
  void run(const CopyState& copy, const SaveStaging& staging, Communicator& comm);

  std::uint64_t bytes() const { return file_->bytes(); }  // that this rank writes
  std::uint64_t bytes_of_all_ranks() const { return all_bytes_; }

 private:
  void begin(Communicator& comm);
  void check_room() const;
  void commit(Manifest mine, int ranks);
  void check_files(const Manifest& manifest) const;

  SaveFolder& folder_;
  const SaveRequest request_;
  const SaveContents contents_;
  std::optional<RankFile> file_;
  std::filesystem::path aside_;
  std::optional<FolderWriter> writer_;  // rank 0's
  std::uint64_t all_bytes_ = 0;
};

}  // namespace zeroshard
