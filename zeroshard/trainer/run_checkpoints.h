// The checkpoints of a training run: when one is due, what is in it, and what happens when it
// cannot be written.
//
//   RunCheckpoints checkpoints(options, run, {comm, folder, core}, SaveMode::snapshot);
//   if (checkpoints.is_due(step)) checkpoints.save(state, /*best=*/false);   // collective
//   if (all ranks say is_over()) checkpoints.finish();
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "zeroshard/checkpoint/saver.h"
#include "zeroshard/engine/core.h"
#include "zeroshard/trainer/run_settings.h"
#include "zeroshard/trainer/run_state.h"

namespace zeroshard {

class RunCheckpoints {
 public:
  struct Parts {  // all must outlive it
    Communicator& comm;
    SaveFolder& folder;
    Core& core;
    Device device;
  };
  RunCheckpoints(const TrainOptions& options, const RunSettings& run, const Parts& parts,
                 SaveMode mode);

  // By this rank's clock; ranks agree about time.
  bool is_due(std::int64_t step) const;
  // Updates must not be under way, nor a save. What cannot be written ends the run or is said, as
  // the options have it: then all ranks go on. Collective.
  void save(const RunState& state, bool best);
  bool is_under_way() const { return saver_.is_under_way(); }
  bool is_over() const { return saver_.is_over(); }
  // Updates wait for the save under way.
  bool holds_updates() const { return mode_ == SaveMode::stream && !is_over(); }
  // Waits for the save under way; on all ranks together. Its report, where it came to be.
  std::optional<SaveReport> finish();
  // For reading, as long as nothing is saved.
  std::byte* memory() const { return static_cast<std::byte*>(staging_.data()); }
  // The step of the last checkpoint that is complete; -1: none of this run.
  std::int64_t last_step() const { return last_step_; }

 private:
  SaveContents contents_of_run(const TensorStates& states, const RunState& state) const;
  template <typename Act>
  bool succeeds(const Act& act);

  const TrainOptions& options_;
  const RunSettings& run_;
  const Parts of_;
  const SaveMode mode_;
  const StateBuffer staging_;
  const StateBuffer snapshot_;  // none where nothing is copied
  Saver saver_;
  std::chrono::steady_clock::time_point last_begun_ = std::chrono::steady_clock::now();
  std::int64_t step_under_way_ = -1;
  std::int64_t last_step_ = -1;
};

// Errors that all ranks have alike are said once: rank 0 throws what is under way, and the others
// its echo when rank 0 has spoken. To be called in a handler.
[[noreturn]] void rethrow_on_first(Communicator& comm);

// States, generators and the run's numbers out of a checkpoint's folder. All ranks throw the same
// where some rank could not read it, or it is of another model; states are then partly new.
// `memory` is for reading ahead, if any. Collective.
RunState resume_from(const std::string& folder, Core& core, Communicator& comm, std::uint64_t seed,
                     std::byte* memory);

}  // namespace zeroshard
