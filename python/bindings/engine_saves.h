// The saves of an engine: the folders that it saves to, and the one save that may run beside
// training.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "zeroshard/checkpoint/save_folder.h"
#include "zeroshard/checkpoint/saver.h"
#include "zeroshard/engine/core.h"

namespace zeroshard::python {

struct SaveOrder {
  std::string root;
  std::string tag;
  bool latest = true;
  std::size_t keep = 0;  // as SaveFolderOptions has it
  SaveMode mode = SaveMode::foreground;
};

class EngineSaves {
 public:
  // Waits for the save under way.
  ~EngineSaves() { end(); }

  // In the foreground it is over when this returns. The save before must be finished. Collective.
  void save(Core& core, Communicator& comm, const SaveOrder& order,
            std::shared_ptr<TensorStates> states, SaveContents contents);

  bool is_under_way() const { return saver_ != nullptr; }
  // Whether it is over on all ranks, well or not. Collective.
  bool is_over(Communicator& comm) const;
  // Until nothing reads the engine's states beside the caller. Throws nothing of the save's, which
  // is still to be finished. No message.
  void wait() const;
  // Waits for the save under way, and throws its error, which is the same on all ranks. No message.
  SaveReport finish();
  // Finishes, passes over an error, and gives memory and folders back.
  void end() noexcept;

  // kSaveStagingBytes of host memory that no save under way uses, for one who reads.
  std::byte* staging(Core& core);

 private:
  // A folder stays locked from the first save there until the engine ends, so that another job is
  // told even where the two save at different moments.
  struct Kept {
    std::filesystem::path root;
    std::size_t keep = 0;
    std::unique_ptr<SaveFolder> folder;
  };

  SaveFolder& folder(Communicator& comm, const SaveOrder& order);
  std::string place_of(const Kept& wanted) const;

  std::vector<Kept> kept_;  // the one that was used last is the last
  StateBuffer staging_;
  StateBuffer copy_;              // of the states, where one is written beside training
  std::unique_ptr<Saver> saver_;  // of the save under way; last, since it uses all the others
};

}  // namespace zeroshard::python
