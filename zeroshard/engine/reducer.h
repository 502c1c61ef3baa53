// Collects gradients during backward and reduces them bucket by bucket while backward goes on.
//
// Buckets are reduced in one order on all ranks; a unit that got no gradient brings zeros at its
// turn. How buckets are cut changes no bit: each group's span is summed by itself.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/gradient_group.h"
#include "zeroshard/engine/gradients_down.h"
#include "zeroshard/engine/stream_order.h"
#include "zeroshard/engine/unit_state.h"
#include "zeroshard/layout/reduction_plan.h"
#include "zeroshard/layout/tier_plan.h"
#include "zeroshard/monitor/trace.h"

namespace zeroshard {

struct ReducerOptions {
  GradientPlan gradients;
  std::int64_t bucket_numel = 0;
  bool overlap = false;
  std::optional<std::size_t> root_unit = {};  // complete only when backward ends
  TierPlan tiers = {};
  SlotRing* staging = nullptr;  // where some unit's G is on the host
  ThreadPool* pool = nullptr;   // the same
  Trace* trace = nullptr;
  DeviceSums sums = DeviceSums::none;
};

class Reducer {
 public:
  // `order` is of the gradients' memory.
  Reducer(const std::vector<FlatUnit*>& units, const ReducerOptions& options, StateMemory& memory,
          StreamOrder& order, Communicator& comm);

  // `reduces`: whether this backward's gradients, and those kept since, are reduced; `ends_step`:
  // whether a step is expected to end with it.
  void begin_backward(bool reduces, bool ends_step);
  bool in_backward() const { return in_backward_; }
  bool reduces() const { return reduces_; }  // of this backward, or else the last
  void capture(std::size_t unit, std::size_t parameter, const at::Tensor& gradient);
  // Whether every trainable parameter of the unit has had a gradient in this backward.
  bool all_captured(std::size_t unit) const { return units_[unit].awaited == 0; }
  // No more gradients of this unit will come in this backward.
  void complete(std::size_t unit);
  // The same for all units.
  void end_backward();
  // After an exception: what this backward has brought so far is forgotten.
  void drop_backward();

  // G is there for what comes next, of what the rank owns, and nothing is under way that writes it.
  void wait_for_own_spans();
  // All of G, where it is replicated: launches what gathers it, and waits. Collective.
  void make_whole();
  // Waits until nothing under way uses our memory any more, whatever fails meanwhile.
  void settle() noexcept;
  // Whether make_whole() has made G whole here, so that what is written into it must not be lost.
  bool whole() const { return whole_; }
  // Told of each unit whose reduction ends a step, once it is under way; `is_there` blocks until
  // the rank has its G, from any thread.
  using TellReducing = std::function<void(std::size_t unit, std::function<void()> is_there)>;
  void when_reducing(TellReducing tell) { tell_reducing_ = std::move(tell); }

  // Called before a unit's G is written, or may be: somebody may still read the last step's.
  void before_writing(std::function<void(std::size_t unit)> wait) {
    before_writing_ = std::move(wait);
  }

  // The optimizer has read G.
  void end_step();

  // The memory of all gradients, for moves between tiers. Nothing may be under way.
  std::vector<StateBuffer*> memory();
  // Buckets give their buffers up, and get new ones.
  void drop_buffers();
  void make_buffers();

  struct UnitGradients {
    std::vector<GradientGroup> groups = {};
    std::vector<std::optional<std::size_t>> group_of = {};  // by flat group: in `groups`
    std::vector<bool> present = {};   // by parameter: a gradient came in this step, on this rank
    std::vector<bool> captured = {};  // the same, in this backward
    std::size_t trainable = 0;        // parameters
    std::size_t awaited = 0;          // of these, not captured
    GradientState state = GradientState::empty;
    bool complete = false;  // in this backward
    bool gathered = false;  // the same: what makes G whole is under way, or done
    std::size_t bucket = 0;
    std::int64_t bucket_offset = 0;  // in elements
  };
  const std::vector<UnitGradients>& units() const { return units_; }
  std::vector<UnitGradients>& units() { return units_; }

 private:
  struct Slot {
    StateBuffer buffer;
    std::optional<std::size_t> bucket = {};  // whose gradients are in it
  };
  struct BucketState {
    std::vector<std::size_t> units = {};  // in reduction order
    std::size_t incomplete = 0;
    Slot* slot = nullptr;
    bool is_root = false;
    bool launched = false;
    Handle handle = {};
  };

  ReductionPlan plan_buckets(const ReducerOptions& options) const;
  void make_buckets(const ReductionPlan& plan, std::optional<std::size_t> root_unit);
  std::int64_t plan_scratch(const ReductionPlan& plan, const ReducerOptions& options) const;
  Slot& ring_slot();
  std::unique_ptr<Slot> make_slot(std::int64_t bytes);
  void* written_memory(UnitGradients& unit, std::size_t group);
  void* bucket_memory(UnitGradients& unit, std::size_t group);
  void fill(UnitGradients& unit, std::vector<ReducePair>& pairs);
  Slot& take_slot(std::size_t bucket);
  void launch_what_is_complete();
  void launch(std::size_t bucket);
  void finish(BucketState& bucket);
  void gather(std::size_t unit);
  void wait_for_gathers();
  void wait_for(const BucketState& bucket) const;
  void order_capture(const GradientGroup& group, std::size_t parameter);
  bool captured_elsewhere() const;
  std::string label_of(const BucketState& bucket) const;

  void count_passing(bool passing);
  void tell_reducing(const BucketState& bucket) const;

  const GradientPlan plan_;
  const bool overlap_;
  const bool gathers_behind_;  // of G: each bucket's while later gradients are made
  const std::int64_t passing_bytes_;
  std::unique_ptr<GradientsDown> down_;  // where one rank has G of some unit on the host
  Trace* const trace_;
  StateMemory& memory_;
  StreamOrder& order_;
  Communicator& comm_;
  TellReducing tell_reducing_;
  std::function<void(std::size_t unit)> before_writing_;
  std::set<std::int64_t> capture_streams_;  // in this step
  std::vector<FlatUnit*> flat_units_;
  std::vector<UnitGradients> units_;
  std::vector<BucketState> buckets_;
  std::vector<std::unique_ptr<Slot>> slots_;  // buckets take them in turn
  std::unique_ptr<Slot> root_slot_;
  std::vector<Handle> under_way_;       // gathers of G
  std::optional<StateBuffer> scratch_;  // for sums that are made on the device
  Ring ring_ = {};                      // of the slots
  std::int64_t root_slot_bytes_ = 0;    // of the root unit's
  std::int64_t scratch_bytes_ = 0;
  std::size_t next_bucket_ = 0;
  bool reduces_ = false;
  bool ends_step_ = false;
  bool in_backward_ = false;
  bool whole_ = false;
};

}  // namespace zeroshard
