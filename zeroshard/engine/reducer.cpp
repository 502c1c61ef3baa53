#include "zeroshard/engine/reducer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/engine/settle.h"
#include "zeroshard/layout/alignment.h"

namespace zeroshard {

Reducer::Reducer(const std::vector<FlatUnit*>& units, const ReducerOptions& options,
                 StateMemory& memory, StreamOrder& order, Communicator& comm)
    : plan_(options.gradients),
      overlap_(options.overlap),
      gathers_behind_(options.overlap && options.gradients.world_size > 1 &&
                      options.gradients.stage.gradients_reduced == Placement::replicated &&
                      options.tiers.first_host_unit >= units.size()),
      passing_bytes_(options.tiers.passing_gradient_bytes),
      trace_(options.trace),
      memory_(memory),
      order_(order),
      comm_(comm),
      flat_units_(units),
      units_(units.size()) {
  if (options.staging != nullptr && plan_.world_size == 1) {
    down_ = std::make_unique<GradientsDown>(memory.device(), passing_bytes_, *options.staging,
                                            *options.pool);
  }
  for (std::size_t i = 0; i < units.size(); ++i) {
    const UnitLayout& layout = units[i]->layout();
    UnitGradients& unit = units_[i];
    unit.present.assign(layout.parameters().size(), false);
    unit.group_of.resize(layout.groups().size());
    unit.groups.reserve(layout.groups().size());
    for (std::size_t group = 0; group < layout.groups().size(); ++group) {
      if (!layout.groups()[group].trainable) continue;
      unit.group_of[group] = unit.groups.size();
      unit.trainable += layout.groups()[group].parameters.size();
      unit.groups.emplace_back(layout.groups()[group], plan_,
                               GradientHome{options.tiers.optimizer(i), down_.get()}, memory);
    }
  }
  const ReductionPlan plan = plan_buckets(options);
  make_buckets(plan, options.root_unit);
  if (plan_.packs()) {
    ring_ = plan.ring;
    root_slot_bytes_ = plan.root_slot_bytes;
  }
  scratch_bytes_ = plan_scratch(plan, options);
  make_buffers();
}

ReductionPlan Reducer::plan_buckets(const ReducerOptions& options) const {
  std::vector<std::int64_t> numels;
  for (const FlatUnit* unit : flat_units_) {
    numels.push_back(unit->layout().totals().trainable_padded_numel);
  }
  return plan_reductions(numels, {.bucket_numel = options.bucket_numel,
                                  .dtype = plan_.communication,
                                  .overlap = options.overlap,
                                  .root_unit = options.root_unit});
}

std::int64_t Reducer::plan_scratch(const ReductionPlan& plan, const ReducerOptions& options) const {
  std::vector<const UnitLayout*> layouts;
  for (const FlatUnit* unit : flat_units_) layouts.push_back(&unit->layout());
  return sum_scratch_bytes(
      layouts, plan, options.tiers, {plan_.communication, plan_.reduced},
      {.sums = options.sums,
       .ranks = plan_.world_size,
       .scale = plan_.scale_after_sum,
       .accumulates = plan_.stage.reductions_add_up(plan_.accumulation_steps)});
}

void Reducer::make_buckets(const ReductionPlan& plan, std::optional<std::size_t> root_unit) {
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const UnitBucket& bucket = plan.buckets[b];
    std::int64_t offset = 0;
    for (const std::size_t unit : bucket.units) {
      units_[unit].bucket = b;
      units_[unit].bucket_offset = offset;
      offset += flat_units_[unit]->layout().totals().trainable_padded_numel;
    }
    buckets_.push_back({.units = bucket.units,
                        .is_root = root_unit.has_value() && bucket.units.front() == *root_unit});
  }
}

void Reducer::make_buffers() {
  for (int i = 0; i < ring_.slots; ++i) slots_.push_back(make_slot(ring_.slot_bytes));
  if (root_slot_bytes_ > 0) root_slot_ = make_slot(root_slot_bytes_);
  if (scratch_bytes_ > 0) {
    scratch_ = memory_.allocate(Category::buffers, Tier::device, scratch_bytes_);
  }
}

void Reducer::drop_buffers() {
  for (BucketState& bucket : buckets_) bucket.slot = nullptr;
  slots_.clear();
  root_slot_.reset();
  scratch_.reset();
}

std::vector<StateBuffer*> Reducer::memory() {
  std::vector<StateBuffer*> all;
  for (UnitGradients& unit : units_) {
    for (GradientGroup& group : unit.groups) {
      for (StateBuffer* const memory : group.memory()) all.push_back(memory);
    }
  }
  return all;
}

std::unique_ptr<Reducer::Slot> Reducer::make_slot(std::int64_t bytes) {
  return std::make_unique<Slot>(Slot{memory_.allocate(Category::buffers, Tier::device, bytes)});
}

void Reducer::begin_backward(bool reduces, bool ends_step) {
  ZS_CHECK(!in_backward_, "a backward inside a backward");
  wait_for_own_spans();  // the last micro-step's have had all of forward to end
  order_.before_write();
  in_backward_ = true;
  ends_step_ = ends_step;
  whole_ = false;
  count_passing(true);
  // What was only collected since the last reduction stays, to be reduced with what comes.
  const bool was_reduced = std::exchange(reduces_, reduces);
  next_bucket_ = 0;
  for (UnitGradients& unit : units_) {
    unit.complete = unit.gathered = false;
    unit.captured.assign(unit.present.size(), false);
    unit.awaited = unit.trainable;
    for (GradientGroup& group : unit.groups) {
      group.expect(reduces);
      const bool was_there = group.holds_reduced();
      if (was_there) group.settle();
      if (was_there && (plan_.keeps_local() || plan_.reduced != DType::fp32)) group.promote();
      if ((was_there && was_reduced) || !plan_.keeps_local()) group.begin_generation();
    }
  }
  for (BucketState& bucket : buckets_) {
    bucket.incomplete = bucket.units.size();
    bucket.launched = false;
  }
}

void Reducer::capture(std::size_t unit, std::size_t parameter, const at::Tensor& gradient) {
  UnitGradients& to = units_[unit];
  if (before_writing_) before_writing_(unit);
  if (to.complete && buckets_[to.bucket].launched) {
    throw StateError(
        {.what = "a gradient came after its unit had been reduced",
         .value = fmt::format("{} of unit {}", flat_units_[unit]->parameters()[parameter].name,
                              flat_units_[unit]->name()),
         .remedy = "use a unit's parameters in its own forward, or after it"});
  }
  if (to.state != GradientState::filling) {
    move_to(to.state, GradientState::filling, flat_units_[unit]->name());
  }
  const UnitLayout::Location at = flat_units_[unit]->layout().locate(parameter);
  const std::size_t group = *to.group_of[at.group];
  order_capture(to.groups[group], at.index);
  to.groups[group].write(at.index, gradient, written_memory(to, group));
  to.present[parameter] = true;
  if (!to.captured[parameter]) --to.awaited;
  to.captured[parameter] = true;
}

// Held gradients stay where autograd has made them, so streams need not wait for each other.
void Reducer::order_capture(const GradientGroup& group, std::size_t parameter) {
  if (memory_.device() == kCpu) return;
  capture_streams_.insert(order_.current().id());
  const bool stays = group.is_held() && !group.written(parameter);
  stays ? order_.before_read() : order_.before_write();
}

bool Reducer::captured_elsewhere() const {
  if (capture_streams_.empty()) return false;
  return capture_streams_.size() > 1 || *capture_streams_.begin() != order_.current().id();
}

// Where gradients are written: null where that is the group's own memory.
void* Reducer::written_memory(UnitGradients& unit, std::size_t group) {
  const bool in_bucket = unit.groups[group].target() == WriteTarget::bucket;
  return in_bucket ? bucket_memory(unit, group) : nullptr;
}

// The group's part of its bucket's buffer; null where reductions need none.
void* Reducer::bucket_memory(UnitGradients& unit, std::size_t group) {
  if (!plan_.packs()) return nullptr;
  std::int64_t offset = unit.bucket_offset;
  for (std::size_t i = 0; i < group; ++i) offset += unit.groups[i].padded_numel();
  return element_at(take_slot(unit.bucket).buffer.data(), offset, plan_.communication);
}

Reducer::Slot& Reducer::take_slot(std::size_t bucket) {
  BucketState& wants = buckets_[bucket];
  if (wants.slot != nullptr) return *wants.slot;
  Slot& slot = wants.is_root ? *root_slot_ : ring_slot();
  if (slot.bucket) finish(buckets_[*slot.bucket]);
  slot.bucket = bucket;
  wants.slot = &slot;
  return slot;
}

// One that is free, or the one whose reduction began first. Where all wait for gradients that come
// out of order, one more.
Reducer::Slot& Reducer::ring_slot() {
  Slot* oldest = nullptr;
  for (const auto& slot : slots_) {
    if (!slot->bucket) return *slot;
    const bool older = oldest == nullptr || *slot->bucket < *oldest->bucket;
    if (buckets_[*slot->bucket].launched && older) oldest = slot.get();
  }
  if (oldest != nullptr) return *oldest;
  slots_.push_back(make_slot(ring_.slot_bytes));
  return *slots_.back();
}

void Reducer::complete(std::size_t unit) {
  UnitGradients& done = units_[unit];
  if (done.complete) return;
  done.complete = true;
  --buckets_[done.bucket].incomplete;
  launch_what_is_complete();
}

void Reducer::end_backward() {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) complete(unit);
  in_backward_ = false;
  count_passing(false);
}

// Gradients on their way down are torch's memory, and count as what the plan allows of them.
void Reducer::count_passing(bool passing) {
  if (passing_bytes_ == 0) return;
  memory_.ledger().add(Category::gradients, Tier::device,
                       passing ? passing_bytes_ : -passing_bytes_);
}

void Reducer::launch_what_is_complete() {
  if (!reduces_) return;
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].incomplete == 0) {
    launch(next_bucket_++);
  }
}

void Reducer::launch(std::size_t bucket) {
  BucketState& of = buckets_[bucket];
  order_.before_write();
  std::vector<ReducePair> pairs;
  ReduceOptions options{.scale = plan_.scale_after_sum};
  if (scratch_) {
    options.scratch = scratch_->data();
    options.scratch_bytes = scratch_->bytes();
  }
  for (const std::size_t index : of.units) {
    UnitGradients& unit = units_[index];
    if (unit.groups.empty()) continue;
    if (before_writing_) before_writing_(index);
    const std::string& name = flat_units_[index]->name();
    if (unit.state != GradientState::filling) move_to(unit.state, GradientState::filling, name);
    move_to(unit.state, GradientState::reducing, name);
    options.accumulate = unit.groups.front().holds_reduced();
    fill(unit, pairs);
  }
  of.launched = true;
  if (!pairs.empty()) of.handle = comm_.reduce_scatter_into(pairs, options, label_of(of));
  if (ends_step_ && tell_reducing_) tell_reducing(of);
  if (!overlap_ || pairs.empty()) finish(of);
  if (!gathers_behind_ || !ends_step_ || bucket == 0) return;
  // The one before has had the time in which this one's gradients were made.
  finish(buckets_[bucket - 1]);
  for (const std::size_t index : buckets_[bucket - 1].units) gather(index);
}

// Makes the unit's gradients complete and adds what there is to send.
void Reducer::fill(UnitGradients& unit, std::vector<ReducePair>& pairs) {
  for (std::size_t i = 0; i < unit.groups.size(); ++i) {
    GradientGroup& group = unit.groups[i];
    group.fill_gaps(written_memory(unit, i));
    if (plan_.world_size == 1) {
      group.reduce_alone();
      if (ends_step_) group.start_sum_of_squares();
    } else {
      void* const packed = bucket_memory(unit, i);
      group.pack(packed);
      pairs.push_back(group.pair(packed));
    }
    group.note_reduction();
  }
}

void Reducer::tell_reducing(const BucketState& bucket) const {
  for (const std::size_t unit : bucket.units) {
    if (units_[unit].groups.empty()) continue;
    if (down_) {
      tell_reducing_(unit, [landed = down_->landed()] { landed.synchronize(); });
    } else {
      tell_reducing_(unit, [reduced = bucket.handle] { reduced.wait(); });
    }
  }
}

std::string Reducer::label_of(const BucketState& bucket) const {
  const std::string& first = flat_units_[bucket.units.front()]->name();
  if (bucket.units.size() == 1) return first;
  return fmt::format("{} and {} more", first, bucket.units.size() - 1);
}

void Reducer::wait_for(const BucketState& bucket) const {
  if (trace_ == nullptr || bucket.handle.done()) return order_.wait(bucket.handle);
  const std::string label = label_of(bucket);
  const Trace::Scope scope(trace_, Lane::compute, "wait for reduction of", label);
  order_.wait(bucket.handle);
}

void Reducer::finish(BucketState& bucket) {
  wait_for(bucket);
  bucket.handle = {};
  if (bucket.slot != nullptr) bucket.slot->bucket.reset();
  bucket.slot = nullptr;
  for (const std::size_t index : bucket.units) {
    UnitGradients& unit = units_[index];
    if (unit.state != GradientState::reducing) continue;
    move_to(unit.state, GradientState::reduced, flat_units_[index]->name());
  }
}

void Reducer::wait_for_own_spans() {
  for (BucketState& bucket : buckets_) {
    if (bucket.launched) finish(bucket);
  }
  wait_for_gathers();
  if (down_) down_->finish();
}

void Reducer::settle() noexcept {
  settle_each(buckets_, [](BucketState& bucket) { bucket.handle.wait(); });
  settle_each(under_way_, [](Handle& handle) { handle.wait(); });
  if (down_) down_->settle();
}

void Reducer::make_whole() {
  wait_for_own_spans();
  if (plan_.stage.gradients_reduced != Placement::replicated || whole_) return;
  whole_ = true;
  if (plan_.world_size == 1) return;
  const Trace::Scope scope(trace_, Lane::compute, "wait for reductions");
  order_.before_write();
  for (std::size_t unit = 0; unit < units_.size(); ++unit) gather(unit);
  wait_for_gathers();
}

// Its own span has been reduced, for what comes next.
void Reducer::gather(std::size_t unit) {
  if (std::exchange(units_[unit].gathered, true)) return;
  std::vector<GatherPair> pairs;
  for (const GradientGroup& group : units_[unit].groups) {
    pairs.push_back({group.own_reduced().read(), group.all_reduced()});
  }
  if (!pairs.empty()) under_way_.push_back(comm_.all_gather_into(pairs, flat_units_[unit]->name()));
}

void Reducer::wait_for_gathers() {
  for (const Handle& handle : under_way_) order_.wait(handle);
  under_way_.clear();
}

void Reducer::end_step() {
  whole_ = false;
  const bool elsewhere = captured_elsewhere();
  capture_streams_.clear();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    UnitGradients& unit = units_[i];
    for (GradientGroup& group : unit.groups) {
      if (elsewhere) group.note_held_use();
      group.end_step();
    }
    unit.gathered = false;
    unit.present.assign(unit.present.size(), false);
    if (unit.state == GradientState::reduced) {
      move_to(unit.state, GradientState::empty, flat_units_[i]->name());
    }
  }
}

void Reducer::drop_backward() {
  if (!in_backward_) return;
  in_backward_ = whole_ = false;
  count_passing(false);
  wait_for_own_spans();
  for (BucketState& bucket : buckets_) {
    if (bucket.slot != nullptr) bucket.slot->bucket.reset();
    bucket.slot = nullptr;
  }
  for (UnitGradients& unit : units_) {
    for (GradientGroup& group : unit.groups) group.end_step();
    unit.present.assign(unit.present.size(), false);
    unit.state = GradientState::empty;
  }
}

}  // namespace zeroshard
