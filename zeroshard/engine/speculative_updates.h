// Updates of units on the host that begin during backward, before the norm is known, as if nothing
// were clipped or skipped. A step either takes them over or takes them back, bit for bit
// (optim/undo.h). Until then nobody sees them: parameters are not written, and whoever asks for a
// state of the engine has them taken back first.
//
//   updates.begin(settings);              // a backward that ends a step begins
//   updates.offer(unit, gradients, is_there);   // its G will be there when is_there() returns
//   ... the norm is known ...
//   if (!updates.stand(settings)) updates.take_back();
//   std::optional<...> done = updates.take_over(unit);   // else it must still be updated
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "zeroshard/base/thread_pool.h"
#include "zeroshard/engine/optimizer_states.h"
#include "zeroshard/engine/reducer.h"
#include "zeroshard/engine/speculation_policy.h"
#include "zeroshard/optim/undo.h"

namespace zeroshard {

class SpeculativeUpdates {
 public:
  // Of the updater, which keeps them meanwhile. `worker` is the host updates' thread.
  struct Parts {
    OptimizerStates& states;
    StateMemory& memory;
    ThreadPool& pool;
    Stream worker;
  };
  // For the units that the plan gives memory to take updates back.
  SpeculativeUpdates(std::vector<FlatUnit*> units, const TierPlan& tiers, const Stage& stage,
                     int moments, const Parts& parts);
  // Nothing of it may be under way on the worker.
  ~SpeculativeUpdates() = default;
  SpeculativeUpdates(const SpeculativeUpdates&) = delete;
  SpeculativeUpdates& operator=(const SpeculativeUpdates&) = delete;

  // Offers from here on are updated with these settings, where the last steps were calm.
  void begin(const UpdateSettings& settings);
  // A unit whose trained parameters all have had a gradient on this rank. `is_there` blocks until
  // its G is; what it throws somebody else reports.
  void offer(std::size_t unit, const Reducer::UnitGradients& gradients,
             std::function<void()> is_there);

  // Whether the settings are those that were assumed. Nothing more begins.
  bool stand(const UpdateSettings& settings);
  // The unit's segments where its masters and moments are new, but for the blocks that were left
  // out (update_left_out). They count as updated from here on. Blocks while it is being updated.
  struct Done {
    std::vector<SegmentUpdate> segments = {};
    std::vector<UndoPointers> undo = {};  // by segment
    std::shared_ptr<const UpdateSettings> settings;
  };
  std::optional<Done> take_over(std::size_t unit);
  // Everything is as before begin(), and nothing more begins.
  void take_back();
  // A step is over: whether what could have been assumed was right. It was wrong, too, where
  // somebody had updates taken back for another reason: he may do so before each step.
  void note_step(bool held) {
    const bool undone = std::exchange(undone_, false);
    policy_.note_step(held && !undone);
  }

  // Units that are updated, and of which no step has been made yet.
  std::int64_t undecided();
  // Units that were updated early in all, and that were taken back.
  std::int64_t updated() const { return updated_; }
  std::int64_t taken_back() const { return taken_back_; }

 private:
  enum class State { idle, waiting, running, done };
  struct Unit {
    std::vector<std::optional<UndoRecord>> records =
        {};  // by flat group, of those that are trained
    bool eligible = false;
    State state = State::idle;  // the worker changes it, under the lock
    std::uint64_t offers = 0;   // so far: one that was taken back may still be in the queue
    std::vector<bool> present = {};
    std::exception_ptr error = {};
    Done work = {};
  };

  bool all_present(std::size_t unit, const Reducer::UnitGradients& gradients) const;
  // The unit's `offer`th, unless it was taken back, or replaced, since.
  void run(Unit& unit, std::uint64_t offer, const std::function<void()>& is_there);
  static bool is_reduced(const std::function<void()>& is_there);
  bool update(Unit& unit);
  // Whether it is done; if it has not begun, it never will.
  bool settle(Unit& unit);

  const std::vector<FlatUnit*> flat_;
  const Parts of_;
  StateBuffer memory_;
  std::vector<Unit> units_;
  SpeculationPolicy policy_;
  std::shared_ptr<const UpdateSettings> settings_;  // none: nothing begins
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t updated_ = 0, taken_back_ = 0;
  bool undone_ = false;  // something was, since the last step
};

}  // namespace zeroshard
