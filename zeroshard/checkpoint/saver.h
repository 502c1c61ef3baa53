// Saves one checkpoint after another, in the foreground or beside training.
//
//   Saver saver(folder, comm, {.mode = SaveMode::snapshot, .staging = ..., .snapshot = ...});
//   engine.finish();
//   saver.save({.tag = "global_step100"}, std::move(states), std::move(contents));  // collective
//   ... train ...
//   if (saver.is_over()) report(saver.finish());     // what went wrong is thrown here
//
// In the background there are two ways. With memory for a snapshot, training waits for a copy of
// what the rank owns, and goes on while that is written. Without, states are read where they are,
// in the order in which units are updated, and the update of a unit that is not read yet waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "zeroshard/checkpoint/checkpoint_save.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/engine/tensor_state.h"

namespace zeroshard {

enum class SaveMode { foreground, snapshot, stream };

struct SaverOptions {
  SaveMode mode = SaveMode::foreground;
  // kSaveStagingBytes, aligned to 4096, and for a snapshot what snapshot_bytes() says. Where the
  // caller has none, they are allocated: the staging at first, the snapshot for each save.
  std::byte* staging = nullptr;
  std::byte* snapshot = nullptr;
};

// What a save was.
struct SaveReport {
  std::string tag;
  std::uint64_t bytes = 0;            // of all ranks
  std::chrono::nanoseconds took{};    // from save() to the end
  std::chrono::nanoseconds paused{};  // training: in save(), and where updates waited
};

// What a snapshot of these states takes.
std::uint64_t snapshot_bytes(const TensorStates& states);

class Saver {
 public:
  // The folder and the communicator must outlive it; it has a sibling of its own. Collective.
  Saver(SaveFolder& folder, Communicator& comm, const SaverOptions& options);
  // Waits for the save under way.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Begins a save; in the foreground it is over when this returns. Updates must not be under way,
  // and the save before must be finished. The contents begin with what contents_of(states) gave.
  // Throws what CheckpointSave does, the same on all ranks. Collective.
  void save(const SaveRequest& request, std::shared_ptr<TensorStates> states,
            SaveContents contents);

  bool is_under_way() const { return current_ != nullptr; }
  // Whether this rank's part is over, well or not. Ranks come to it at different moments: they
  // agree before they call finish().
  bool is_over() const;
  // Waits for the save under way, and throws its error, which is the same on all ranks. No message.
  SaveReport finish();

 private:
  using Clock = std::chrono::steady_clock;
  struct Current;

  void run(Current& current);
  void run_beside(Current& current, const std::string& label);
  void prepare(Current& current, std::future<bool> begins);
  void take_snapshot(Current& current);
  void begin_stream(Current& current);
  static void begin_frozen(Current& current);
  CopyState reader_of(Current& current) const;

  SaveFolder& folder_;
  Communicator& comm_;
  const std::unique_ptr<Communicator> beside_;  // of the thread
  const SaverOptions options_;
  const std::unique_ptr<SaveStaging> staging_;
  std::unique_ptr<Current> current_;  // null where none is under way
  std::thread thread_;
};

}  // namespace zeroshard
