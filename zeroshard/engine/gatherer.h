// Gathers and releases units: runs the schedule's actions, keeps the pool of full buffers, and
// waits for what is needed.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/gather_schedule.h"
#include "zeroshard/engine/stream_order.h"
#include "zeroshard/layout/pool.h"
#include "zeroshard/monitor/trace.h"

namespace zeroshard {

// Full buffers of the sizes and numbers that the layout's plan gives; one more is allocated, and
// kept, where units are used in a way that the plan did not foresee.
class GatherPoolMemory {
 public:
  GatherPoolMemory(const GatherPool& plan, StateMemory& memory);

  void* take(std::int64_t slot_bytes);
  void give_back(void* slot);
  // Gives up what is beyond the plan and free.
  void trim(const StreamOrder& order);
  // Gives up all that is free. What the plan foresees is allocated again when it is next taken.
  void empty(const StreamOrder& order);

 private:
  struct Slot {
    StateBuffer buffer;
    bool taken = false;
    bool planned = false;
  };
  StateMemory& memory_;
  std::multimap<std::int64_t, Slot> slots_;  // by size
};

class Gatherer {
 public:
  // `plan` is empty where every unit is resident; `order` is of the parameters' memory.
  Gatherer(std::vector<FlatUnit*> units, GatherSchedule schedule, const GatherPool& plan,
           StateMemory& memory, StreamOrder& order, Communicator& comm);

  // Before a use: gathers what is planned up to here and some ahead, and waits for the unit. It
  // stays until as many unhold() as there were reach().
  void reach(PhaseKind phase, std::size_t unit);
  // The use is over; with the last one the unit is released.
  void unhold(std::size_t unit);
  // A use that the schedule need not know of: recomputing in backward.
  void hold(std::size_t unit);
  // The rest of what this phase planned, and nothing held or under way any more.
  void finish_phase();
  // A phase that happens on other ranks only.
  void pass_over(PhaseKind phase) { run(schedule_.pass_over(phase), kNone); }
  // This phase is over, of which this rank may have used nothing.
  void finish(PhaseKind phase) {
    if (schedule_.is_in(phase)) {
      finish_phase();
    } else {
      pass_over(phase);
    }
  }
  // Told of each unit that was planned and is not used, at its place in the order.
  void when_skipped(std::function<void(std::size_t unit)> tell) { tell_skipped_ = std::move(tell); }
  // Where waits and the bytes of what is gathered are noted, if anywhere.
  void set_trace(Trace* trace) { trace_ = trace; }
  // After an exception: whatever is held is let go.
  void drop_holds();

  // Whether somebody uses a unit just now.
  bool holds_any() const;

  // After an update: the shard's new values to the other ranks, for units that are resident, or
  // that somebody holds in full, which all ranks do then.
  void refresh(std::size_t unit);
  // New values of the unit's shard are on their way, from a thread of the host: whoever reads the
  // unit, or gathers it, comes after them.
  void expect(std::size_t unit, Handle update) { entries_[unit].update = std::move(update); }
  void wait_for_updates();
  // The current stream comes after what is under way for the unit, or for all units.
  void wait(std::size_t unit);
  void wait_for_all();
  // Waits until nothing under way uses our memory any more, whatever fails meanwhile.
  void settle() noexcept;

  // After a full-parameter scope: memory for what no phase needs is given back.
  void trim() {
    order_.before_write();  // whatever stream still reads a buffer that goes
    pool_.trim(order_);
  }
  // The buffers of units that are released are given back. No message.
  void empty_pool() {
    order_.before_write();
    pool_.empty(order_);
  }

  GatherSchedule& schedule() { return schedule_; }

 private:
  struct Entry {
    FlatUnit* unit = nullptr;
    std::int64_t slot_bytes = 0;        // of the slots it takes
    std::optional<Handle> update = {};  // of its shard
    Handle handle = {};                 // of its gather
    void* slot = nullptr;
    int holds = 0;
  };

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  void run(const GatherSchedule::Actions& actions, std::size_t needed);
  void gather(std::size_t unit);
  void begin_use(std::size_t unit);
  void wait_for_update(std::size_t unit);
  void release(std::size_t unit);
  void note_gathered(std::int64_t change);

  std::vector<Entry> entries_;
  GatherSchedule schedule_;
  GatherPoolMemory pool_;
  StreamOrder& order_;
  Communicator& comm_;
  std::function<void(std::size_t)> tell_skipped_ = [](std::size_t) {};
  Trace* trace_ = nullptr;
  std::int64_t gathered_bytes_ = 0;
};

}  // namespace zeroshard
