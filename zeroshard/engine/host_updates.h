// Updates of units whose optimizer states are on the host: on a thread of their own and in the
// order in which they are given, while the device goes on. A unit's new values go up piece by
// piece.
//
//   updates.begin_step();                             // what the device reads so far is the old
//   values Handle block3 = updates.update(segments, settings, "block.3");   // returns at once
//   block3.wait(compute);                             // what `compute` does from now on reads the
//   new
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "zeroshard/base/thread_pool.h"
#include "zeroshard/comm/handle.h"
#include "zeroshard/engine/optimizer_states.h"
#include "zeroshard/engine/slot_ring.h"
#include "zeroshard/monitor/trace.h"
#include "zeroshard/optim/undo.h"

namespace zeroshard {

class HostUpdates {
 public:
  // New values pass through the ring where parameters are on the device. `unsent` is what an update
  // alone writes them into (TierPlan::unsent_bytes).
  HostUpdates(Device device, SlotRing& ring, StateBuffer unsent, ThreadPool& pool, Trace* trace);
  ~HostUpdates() { worker_.synchronize(); }
  HostUpdates(const HostUpdates&) = delete;
  HostUpdates& operator=(const HostUpdates&) = delete;

  // New values may overwrite parameters when the current stream has come this far.
  void begin_step();

  // What of an update is done: new masters and moments, or the new values' way up, or both. An
  // update alone leaves the ring to gradients that come down meanwhile.
  enum class Part { both, update, send };
  // One unit's. The segments' gradients and states are on the host; their parameters are on
  // `parameters`. The handle's end comes behind the last copy up.
  struct Work {
    std::vector<SegmentUpdate> segments = {};
    std::shared_ptr<const UpdateSettings> settings;  // the segments point into it
    Device parameters = kCpu;
    Tier parameter_tier = Tier::device;
    std::string unit = {};
    // Parameters on the host are always both.
    Part part = Part::both;
    // By segment: of masters and moments that are new already, the blocks that were left out.
    std::vector<UndoPointers> left_out = {};
    std::function<void()> when_may_begin = [] {};  // returns then
  };
  Handle update(Work work);
  // What updates: work of others that comes between.
  const Stream& worker() const { return worker_; }

 private:
  void run(const Work& work);
  void update_in_place(const SegmentUpdate& segment);
  void update_alone(const SegmentUpdate& segment);
  void run_segment(const Work& work, std::size_t segment);
  void send_masters(const SegmentUpdate& segment, Device parameters);
  void update_through_ring(const SegmentUpdate& segment, const Work& work);
  void send_up(const SegmentUpdate& piece, void* parameter, const Work& work);

  const Device device_;
  SlotRing& ring_;
  StateBuffer unsent_;
  ThreadPool& pool_;
  Trace* const trace_;
  Event old_values_read_;
  Stream up_;
  Stream worker_;
};

}  // namespace zeroshard
