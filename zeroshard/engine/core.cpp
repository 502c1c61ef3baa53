#include "zeroshard/engine/core.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/error.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/engine/traced_communicator.h"
#include "zeroshard/precision/gradient_scale.h"

namespace zeroshard {
namespace {

std::vector<std::unique_ptr<FlatUnit>> make_flat(const std::vector<UnitSpec>& units,
                                                 const EngineOptions& options,
                                                 const Communicator& comm,
                                                 const std::shared_ptr<StateMemory>& memory) {
  std::vector<std::unique_ptr<FlatUnit>> flat;
  std::vector<GatherUnit> so_far;
  for (const UnitSpec& unit : units) {
    flat.push_back(
        std::make_unique<FlatUnit>(unit, Core::unit_options(options, unit, comm, so_far), memory));
  }
  return flat;
}

std::vector<FlatUnit*> pointers(const std::vector<std::unique_ptr<FlatUnit>>& units) {
  std::vector<FlatUnit*> all;
  for (const auto& unit : units) all.push_back(unit.get());
  return all;
}

GatherLimits gather_limits(const ZeroOptions& zero) {
  return {.persistence_numel = zero.persistence_numel,
          .model_persistence_numel = zero.model_persistence_numel,
          .prefetch_numel = zero.prefetch_numel,
          .max_live_numel = zero.max_live_numel};
}

GradientPlan gradient_plan(const EngineOptions& options, const Stage& stage,
                           const Communicator& comm) {
  const PrecisionOptions& precision = options.precision;
  const MeanFactors factors = mean_factors(precision, comm.world_size());
  return {.stage = stage,
          .accumulation = precision.accumulation(),
          .communication = precision.communication(),
          .reduced = precision.reduced(stage.reductions_add_up(options.accumulation_steps)),
          .before = factors.before,
          .after = factors.after,
          .rank = comm.rank(),
          .world_size = comm.world_size()};
}

int group_of(const EngineOptions& options, const std::string& parameter) {
  const int group = options.group_of ? options.group_of(parameter) : 0;
  if (group >= 0 && static_cast<std::size_t>(group) < options.groups.size()) return group;
  throw ConfigError({.what = "a parameter is in a parameter group that does not exist",
                     .value = parameter + ": " + std::to_string(group),
                     .remedy = "give one of the groups, counted from 0"});
}

}  // namespace

FlatUnitOptions Core::unit_options(const EngineOptions& options, const UnitSpec& unit,
                                   const Communicator& comm, std::vector<GatherUnit>& units) {
  const Stage& stage = stage_row(options.zero.stage);
  std::int64_t numel = 0;
  for (const NamedParameter& parameter : unit.parameters) numel += parameter.tensor.numel();
  units.push_back({.numel = numel, .never_released = !unit.has_call_point});
  const bool persistent = persistent_units(units, gather_limits(options.zero)).back();
  const bool mixed = options.keeps_dtypes || options.precision.model() == DType::fp32;
  return {
      .rank = comm.rank(),
      .world_size = comm.world_size(),
      .dtype = mixed ? std::nullopt : std::optional(options.precision.model()),
      .resident = stage.parameters == Placement::replicated || comm.world_size() == 1 || persistent,
      .poison = options.zero.debug_poison,
      .empties_released = options.empties_released};
}

Core::Core(const std::vector<UnitSpec>& units, const EngineOptions& options, Communicator& comm)
    : Core(make_flat(units, options, comm, std::make_shared<StateMemory>(options.device)), nullptr,
           options, comm) {}

Core::Core(std::vector<std::unique_ptr<FlatUnit>> units, std::shared_ptr<StateMemory> memory,
           EngineOptions options, Communicator& comm)
    : options_(std::move(options)),
      stage_(stage_row(options_.zero.stage)),
      gathers_(trace_operations(count_traffic(comm, traffic_), options_.trace)),
      reductions_(gathers_->make_sibling()),
      memory_(memory ? std::move(memory) : units.at(0)->memory()),
      pool_(options_.threads > 0 ? options_.threads : usable_cpus()),
      flat_(std::move(units)),
      scaler_(options_.precision),
      link_(std::make_shared<CoreLink>(CoreLink{this})),
      pending_(flat_.size()),
      in_graph_(flat_.size()),
      open_(flat_.size()),
      held_(flat_.size()),
      spans_(options_.trace) {
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    if (!flat_[i]->has_call_point()) root_ = i;
  }
  make_gatherer();
  make_reducer();
  make_states();
}

void Core::make_reducer() {
  reducer_ = std::make_unique<Reducer>(
      pointers(flat_),
      ReducerOptions{.gradients = gradient_plan(options_, stage_, *gathers_),
                     .bucket_numel = options_.zero.reduce_bucket_numel,
                     .overlap = options_.zero.overlap_comm.value_or(stage_.overlaps_by_default()),
                     .root_unit = root_,
                     .trace = options_.trace},
      *memory_, *reductions_);
  if (options_.shows_gradients && stage_keeps_local()) {
    shown_ = std::make_unique<ShownGradients>(pointers(flat_), *reducer_);
  }
}

void Core::make_states() {
  std::vector<std::vector<int>> ids(flat_.size());
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    for (std::size_t p = 0; p < flat_[i]->parameters().size(); ++p) {
      const NamedParameter& parameter = flat_[i]->parameters()[p];
      ids[i].push_back(group_of(options_, parameter.name));
      if (parameter.trained()) hooks_.emplace_back(parameter.tensor, link_, i, p);
    }
  }
  int moments = 0;
  for (const OptimizerOptions& group : options_.groups) {
    if (!options_.update) moments = std::max(moments, moments_per_parameter(group));
  }
  states_ =
      std::make_unique<OptimizerStates>(pointers(flat_), ids, moments, stage_, *memory_, pool_);
  if (options_.update) {
    master_segments_ = master_segments_of(pointers(flat_), ids, *states_, stage_);
  }
}

// The same arithmetic as the planner's, over what the units have become.
void Core::make_gatherer() {
  std::vector<GatherUnit> units;
  std::vector<bool> resident;
  for (const auto& unit : flat_) {
    const LayoutTotals& totals = unit->layout().totals();
    units.push_back({totals.numel, totals.gathered_bytes, unit->resident()});
    resident.push_back(unit->resident());
  }
  GatherLimits limits = gather_limits(options_.zero);
  limits.persistence_numel = limits.model_persistence_numel = 0;  // decided when they were made
  const GatherPool pool = size_gather_pool(units, forward_and_backward(units.size()), limits);
  gatherer_ = std::make_unique<Gatherer>(pointers(flat_), GatherSchedule(units, resident, limits),
                                         pool, *memory_, *gathers_);
  gatherer_->set_trace(options_.trace);
  gatherer_->when_skipped([this](std::size_t unit) { skip_in_backward(unit); });
}

Core::~Core() {
  link_->core = nullptr;
  try {
    if (gatherer_) gatherer_->wait_for_all();
    if (reducer_) reducer_->wait_for_own_spans();
  } catch (...) {
    // Communication has failed; whoever waited has heard of it, or is about to.
  }
}

void Core::before_forward(std::size_t unit, bool trains) {
  const std::lock_guard lock(mutex_);
  drop_broken_backward();
  flat_[unit]->check_intact(trains);
  if (in_backward_) {
    hold_for_recompute(unit);
  } else {
    forward_ran_ = forward_ran_ || trains;
    gatherer_->reach(trains ? PhaseKind::train_forward : PhaseKind::eval, unit);
  }
  spans_.begin_forward(unit, in_backward_);
}

void Core::hold_for_recompute(std::size_t unit) {
  if (held_[unit]) return;
  gatherer_->reach(PhaseKind::backward, unit);
  held_[unit] = true;
  recompute_held_.push_back(unit);
}

void Core::abandon_forward() {
  const std::lock_guard lock(mutex_);
  spans_.drop_forwards();
  if (!in_backward_) gatherer_->schedule().abandon_pass();
}

bool Core::recomputes() const {
  return in_backward_ && torch::autograd::get_current_graph_task_id() >= 0;
}

void Core::after_forward(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  spans_.end_forward(unit, flat_[unit]->name());
  if (!in_backward_) gatherer_->unhold(unit);
}

void Core::end_recompute(std::size_t held_before) {
  const std::lock_guard lock(mutex_);
  while (recompute_held_.size() > held_before) {
    const std::size_t unit = recompute_held_.back();
    recompute_held_.pop_back();
    if (!held_[unit]) continue;
    held_[unit] = false;
    gatherer_->unhold(unit);
  }
}

void Core::expect_backward(std::size_t unit) {
  ++pending_[unit];
  ++in_graph_[unit];
}

void Core::leave_open(std::size_t unit) { ++open_[unit]; }

// Called when autograd destroys a graph, at any time: it takes no lock.
void Core::forget_backward(std::size_t unit, ForgottenUse use) {
  if (use.pending) --pending_[unit];
  if (use.open) --open_[unit];
  --in_graph_[unit];
}

// A rank that uses the unit reduces its gradients here, before it gathers the next one. So must one
// that does not, or the two would wait for each other.
void Core::skip_in_backward(std::size_t unit) {
  if (!reducer_->in_backward() || unit == root_) return;
  // Elsewhere no gather is waited for, and a unit may be used without being called.
  if (stage_.parameters != Placement::sharded) return;
  if (autograd_is_over_ || in_graph_[unit] == 0) reducer_->complete(unit);
}

void Core::before_backward(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  open_backward();
  if (!held_[unit]) {
    gatherer_->reach(PhaseKind::backward, unit);
    held_[unit] = true;
  }
  spans_.begin_backward(unit);
}

void Core::after_backward(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  if (--pending_[unit] == 0) finish_unit(unit);
}

void Core::capture(std::size_t unit, std::size_t parameter, const at::Tensor& gradient) {
  const std::lock_guard lock(mutex_);
  open_backward();
  if (!loss_.scaled) refuse_unscaled();
  if (unit != root_) spans_.begin_backward(unit);  // the root's would be open to the very end
  reducer_->capture(unit, parameter,
                    as_ours(gradient, flat_[unit]->parameters()[parameter].tensor));
  finish_open_unit(unit);
  if (completes_by_gradients() && pending_[unit] == 0 && reducer_->all_captured(unit)) {
    reducer_->complete(unit);
  }
}

// A unit in mid-model of which no input needs a gradient (the first of a second tower). The other
// ranks wait for its reduction before backward ends, so it is over when all its gradients are here.
// A frozen parameter may still be needed for a gradient outside the unit: then it stays gathered.
void Core::finish_open_unit(std::size_t unit) {
  if (open_[unit] == 0 || open_[unit] != in_graph_[unit]) return;
  if (!reducer_->all_captured(unit)) return;
  if (flat_[unit]->layout().totals().trainable_numel == flat_[unit]->layout().totals().numel) {
    finish_unit(unit);
  } else {
    reducer_->complete(unit);
  }
}

// A part of a unit may have been used before the unit was called; its gradient comes when the
// unit's backward is over. Where nothing is gathered in backward, nobody waits for the others at a
// unit, so it is complete when its gradients are here, or else when backward ends.
bool Core::completes_by_gradients() const { return stage_.parameters != Placement::sharded; }

// Every node of a unit was made after its input boundary, so autograd has run them all by now.
void Core::finish_unit(std::size_t unit) {
  if (!completes_by_gradients() || reducer_->all_captured(unit)) reducer_->complete(unit);
  spans_.end_backward(unit, flat_[unit]->name());
  if (!held_[unit]) return;
  held_[unit] = false;
  gatherer_->unhold(unit);
}

void Core::close_backward() {
  if (!in_backward_) return;
  autograd_is_over_ = true;
  for (std::size_t unit = 0; unit < flat_.size(); ++unit) {
    if (held_[unit]) finish_unit(unit);
    spans_.end_backward(unit, flat_[unit]->name());  // of one that was used without being called
  }
  recompute_held_.clear();
  gatherer_->finish(PhaseKind::backward);  // its loss may depend on no unit that others gather
  reducer_->end_backward();
  in_backward_ = false;
  show_gradients();
}

// What earlier micro-steps have brought is mixed with it: the accumulation begins anew.
void Core::drop_backward() {
  reducer_->drop_backward();
  micro_steps_ = 0;
  recompute_held_.clear();
  held_.assign(held_.size(), false);
  spans_.drop_backwards();
  gatherer_->schedule().abandon_pass();
  gatherer_->drop_holds();
  in_backward_ = false;
}

// A backward that was not ours (loss.backward()) and threw has told nobody that it is over.
void Core::drop_broken_backward() {
  if (in_backward_ && !recomputes()) drop_backward();
}

// Nobody calls it, so it is looked at here.
void Core::check_root() const {
  if (root_) flat_[*root_]->check_intact();
}

bool Core::at_boundary() const {
  return boundary_.value_or((micro_steps_ + 1) % options_.accumulation_steps == 0);
}

void Core::set_accumulation_steps(std::int64_t steps) {
  const std::lock_guard lock(mutex_);
  if (steps < 1) {
    throw ConfigError({.what = "a step has at least one micro-step",
                       .value = std::to_string(steps),
                       .remedy = "give a train batch of at least one micro batch per rank"});
  }
  if (micro_steps_ != 0) {
    throw StateError(
        {.what = "the number of micro-steps cannot change within a step",
         .value = fmt::format("{} of {} are done", micro_steps_, options_.accumulation_steps),
         .remedy = "change it after the step() that ends the step"});
  }
  options_.accumulation_steps = steps;
}

void Core::set_boundary(std::optional<bool> boundary) {
  const std::lock_guard lock(mutex_);
  boundary_ = boundary;
}

}  // namespace zeroshard
