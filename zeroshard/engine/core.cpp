#include "zeroshard/engine/core.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/error.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/precision/gradient_scale.h"

namespace zeroshard {
namespace {

std::vector<std::unique_ptr<FlatUnit>> make_flat(const std::vector<UnitSpec>& units,
                                                 const EngineOptions& options,
                                                 const Communicator& comm,
                                                 const std::shared_ptr<StateMemory>& memory) {
  std::vector<std::unique_ptr<FlatUnit>> flat;
  for (const UnitSpec& unit : units) {
    flat.push_back(
        std::make_unique<FlatUnit>(unit, Core::unit_options(options, unit, comm), memory));
  }
  return flat;
}

std::vector<FlatUnit*> pointers(const std::vector<std::unique_ptr<FlatUnit>>& units) {
  std::vector<FlatUnit*> all;
  for (const auto& unit : units) all.push_back(unit.get());
  return all;
}

GradientPlan gradient_plan(const EngineOptions& options, const Stage& stage,
                           const Communicator& comm) {
  const PrecisionOptions& precision = options.precision;
  const MeanFactors factors = mean_factors(precision, comm.world_size());
  const bool adds_up =
      options.accumulation_steps > 1 && stage.gradients_accumulating == Placement::sharded;
  return {.stage = stage,
          .accumulation = precision.accumulation(),
          .communication = precision.communication(),
          .reduced = precision.reduced(adds_up),
          .before = factors.before,
          .after = factors.after,
          .rank = comm.rank(),
          .world_size = comm.world_size()};
}

}  // namespace

FlatUnitOptions Core::unit_options(const EngineOptions& options, const UnitSpec& unit,
                                   const Communicator& comm) {
  const Stage& stage = stage_row(options.zero.stage);
  std::int64_t numel = 0;
  for (const NamedParameter& parameter : unit.parameters) numel += parameter.tensor.numel();
  const bool small = numel <= options.zero.persistence_numel;
  const bool mixed = options.precision.model() == DType::fp32;
  return {.rank = comm.rank(),
          .world_size = comm.world_size(),
          .dtype = mixed ? std::nullopt : std::optional(options.precision.model()),
          .resident = stage.parameters == Placement::replicated || comm.world_size() == 1 ||
                      !unit.has_call_point || small,
          .poison = options.zero.debug_poison};
}

Core::Core(const std::vector<UnitSpec>& units, const EngineOptions& options, Communicator& comm)
    : Core(make_flat(units, options, comm, std::make_shared<StateMemory>(options.device)), nullptr,
           options, comm) {}

Core::Core(std::vector<std::unique_ptr<FlatUnit>> units, std::shared_ptr<StateMemory> memory,
           EngineOptions options, Communicator& comm)
    : options_(std::move(options)),
      stage_(stage_row(options_.zero.stage)),
      gathers_(count_traffic(comm, traffic_)),
      reductions_(gathers_->make_sibling()),
      memory_(memory ? std::move(memory) : units.at(0)->memory()),
      pool_(options_.threads > 0 ? options_.threads : usable_cpus()),
      flat_(std::move(units)),
      scaler_(options_.precision),
      link_(std::make_shared<CoreLink>(CoreLink{this})),
      pending_(flat_.size()),
      held_(flat_.size()) {
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
                     .last_unit = root_},
      *memory_, *reductions_);
}

void Core::make_states() {
  std::vector<std::vector<int>> ids(flat_.size());
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    for (std::size_t p = 0; p < flat_[i]->parameters().size(); ++p) {
      const NamedParameter& parameter = flat_[i]->parameters()[p];
      ids[i].push_back(options_.group_of ? options_.group_of(parameter.name) : 0);
      if (parameter.tensor.requires_grad()) hooks_.emplace_back(parameter.tensor, link_, i, p);
    }
  }
  states_ = std::make_unique<OptimizerStates>(pointers(flat_), std::move(ids),
                                              moments_per_parameter(options_.groups.front()),
                                              stage_, *memory_, pool_);
}

// The same arithmetic as the planner's.
void Core::make_gatherer() {
  std::vector<GatherUnit> units;
  std::vector<bool> resident;
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    const LayoutTotals& totals = flat_[i]->layout().totals();
    units.push_back({totals.numel, totals.gathered_bytes, root_ == i});
    resident.push_back(flat_[i]->resident());
  }
  const GatherLimits limits{.persistence_numel = options_.zero.persistence_numel,
                            .model_persistence_numel = options_.zero.model_persistence_numel,
                            .prefetch_numel = options_.zero.prefetch_numel,
                            .max_live_numel = options_.zero.max_live_numel};
  const bool gathers = std::ranges::find(resident, false) != resident.end();
  const GatherPool pool =
      gathers ? size_gather_pool(units, forward_and_backward(units.size()), limits) : GatherPool{};
  gatherer_ = std::make_unique<Gatherer>(pointers(flat_), GatherSchedule(units, resident, limits),
                                         pool, *memory_, *gathers_);
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

void Core::before_forward(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  flat_[unit]->check_intact();
  if (in_backward_) {
    if (held_[unit]) return;
    gatherer_->hold(unit);
    held_[unit] = true;
    recompute_held_.push_back(unit);
    return;
  }
  const bool trains = at::GradMode::is_enabled();
  gatherer_->reach(trains ? PhaseKind::train_forward : PhaseKind::eval, unit);
}

void Core::after_forward(std::size_t unit) {
  const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  ++pending_[unit];
}

void Core::before_backward(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  open_backward();
  if (held_[unit]) return;
  gatherer_->reach(PhaseKind::backward, unit);
  held_[unit] = true;
}

void Core::after_backward(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  if (pending_[unit] > 0) --pending_[unit];
  if (pending_[unit] == 0) finish_unit(unit);
}

void Core::capture(std::size_t unit, std::size_t parameter, const at::Tensor& gradient) {
  const std::lock_guard lock(mutex_);
  open_backward();
  reducer_->capture(unit, parameter, gradient);
}

// Every node of a unit was made after its input boundary, so autograd has run them all by now.
void Core::finish_unit(std::size_t unit) {
  reducer_->complete(unit);
  if (!held_[unit]) return;
  held_[unit] = false;
  gatherer_->unhold(unit);
}

// In a backward that is not ours (loss.backward()), the first hook comes here.
void Core::open_backward() {
  if (in_backward_) return;
  in_backward_ = true;
  gatherer_->finish_phase();
  reducer_->begin_backward(at_boundary() || !stage_keeps_local());
  torch::autograd::Engine::get_default_engine().queue_callback([link = link_] {
    if (link->core == nullptr) return;
    const std::lock_guard lock(link->core->mutex_);
    link->core->close_backward();
  });
}

void Core::close_backward() {
  if (!in_backward_) return;
  reducer_->end_backward();
  for (std::size_t unit = 0; unit < flat_.size(); ++unit) {
    if (!held_[unit]) continue;
    held_[unit] = false;
    gatherer_->unhold(unit);
  }
  recompute_held_.clear();
  gatherer_->finish_phase();
  in_backward_ = false;
}

void Core::drop_backward() {
  reducer_->drop_backward();
  recompute_held_.clear();
  held_.assign(held_.size(), false);
  pending_.assign(pending_.size(), 0);
  gatherer_->drop_holds();
  in_backward_ = false;
}

bool Core::at_boundary() const { return (micro_steps_ + 1) % options_.accumulation_steps == 0; }

}  // namespace zeroshard
