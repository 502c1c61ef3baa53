#include "zeroshard/engine/core.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/graph_task.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/engine/traced_communicator.h"
#include "zeroshard/layout/gather_limits.h"
#include "zeroshard/precision/gradient_scale.h"

namespace zeroshard {
namespace {

std::vector<std::unique_ptr<FlatUnit>> make_flat(const std::vector<UnitSpec>& units,
                                                 const EngineOptions& options,
                                                 const Communicator& comm,
                                                 const std::shared_ptr<StateMemory>& memory) {
  std::vector<std::unique_ptr<FlatUnit>> flat;
  std::vector<UnitSize> so_far;
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

GradientPlan gradient_plan(const EngineOptions& options, const Stage& stage,
                           const Communicator& comm) {
  const PrecisionOptions& precision = options.precision;
  const MeanFactors factors = mean_factors(precision, comm.world_size());
  return {.stage = stage,
          .accumulation = precision.accumulation(),
          .communication = precision.communication(),
          .reduced = precision.reduced(stage.reductions_add_up(options.accumulation_steps)),
          .scale_before_sum = factors.before_sum,
          .scale_after_sum = factors.after_sum,
          .rank = comm.rank(),
          .world_size = comm.world_size(),
          .accumulation_steps = options.accumulation_steps};
}

int parameter_group_of(const EngineOptions& options, const std::string& parameter) {
  const int group = options.parameter_group_of ? options.parameter_group_of(parameter) : 0;
  if (group >= 0 && static_cast<std::size_t>(group) < options.parameter_groups.size()) return group;
  throw ConfigError({.what = "a parameter is in a parameter group that does not exist",
                     .value = parameter + ": " + std::to_string(group),
                     .remedy = "give one of the groups, counted from 0"});
}

}  // namespace

std::shared_ptr<StateMemory> Core::make_memory(const EngineOptions& options) {
  const OffloadOptions& offload = options.offload;
  const bool optimizer = offload.optimizer != Tier::device && offload.pin_optimizer_memory;
  const bool parameters = offload.parameters != Tier::device && offload.pin_parameter_memory;
  return std::make_shared<StateMemory>(options.device,
                                       HostMemoryOptions{.pin = optimizer || parameters});
}

FlatUnitOptions Core::unit_options(const EngineOptions& options, const UnitSpec& unit,
                                   const Communicator& comm, std::vector<UnitSize>& units) {
  const Stage& stage = stage_row(options.zero.stage);
  std::int64_t numel = 0;
  for (const NamedParameter& parameter : unit.parameters) numel += parameter.tensor.numel();
  units.push_back({.numel = numel, .never_released = !unit.has_call_point});
  const bool persistent = persistent_units(units, gather_limits(options.zero)).back();
  const bool mixed = options.keeps_dtypes || options.precision.model() == DType::fp32;
  const bool on_host = options.offload.parameters != Tier::device;
  const bool resident = stage.parameters == Placement::replicated || persistent ||
                        (comm.world_size() == 1 && !on_host);
  return {.rank = comm.rank(),
          .world_size = comm.world_size(),
          .dtype = mixed ? std::nullopt : std::optional(options.precision.model()),
          .resident = resident,
          .tier = on_host && !resident ? Tier::host : Tier::device,
          .poison = options.zero.debug_poison,
          .empties_released = options.empties_released};
}

Core::Core(const std::vector<UnitSpec>& units, const EngineOptions& options, Communicator& comm)
    : Core(make_flat(units, options, comm, make_memory(options)), nullptr, options, comm) {}

// The communicator is the caller's, who may use it between a forward and its backward: the engine
// has siblings of its own.
Core::Core(std::vector<std::unique_ptr<FlatUnit>> units, std::shared_ptr<StateMemory> memory,
           EngineOptions options, Communicator& comm)
    : options_(std::move(options)),
      stage_(stage_row(options_.zero.stage)),
      gathers_(trace_operations(count_traffic(comm, traffic_)->make_sibling(), options_.trace)),
      reductions_(gathers_->make_sibling()),
      memory_(memory ? std::move(memory) : units.at(0)->memory()),
      flat_(std::move(units)),
      pool_(options_.threads > 0 ? options_.threads : usable_cpus()),
      uses_(flat_.size()),
      times_(options_.trace),
      parameter_order_(memory_->device()),
      gradient_order_(memory_->device()),
      scaler_(options_.precision),
      weak_(std::make_shared<WeakCore>(this)),
      offloaded_(*memory_),
      full_scopes_(flat_.size()) {
  options_.sums = gathers_->device_sums();
  if (const Device device = memory_->device(); device != kCpu)
    reading_stream_ = Stream::make(device);
  // Another optimizer than ours works on whole masters, and when it says so.
  if (options_.update) {
    options_.zero.halved_masters = false;
    options_.zero.speculative_update = false;
    options_.zero.delayed_update = false;
  }
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    if (!flat_[i]->has_call_point()) root_ = i;
  }
  plan_tiers();
  make_gatherer();
  make_reducer();
  backward_ = std::make_unique<BackwardPass>(BackwardPass::Parts{.units = flat_,
                                                                 .root = root_,
                                                                 .parameters = stage_.parameters,
                                                                 .gatherer = *gatherer_,
                                                                 .reducer = *reducer_,
                                                                 .uses = uses_,
                                                                 .times = times_});
  make_updater();
}

ModelLayout Core::layout() const {
  std::vector<UnitLayout> units;
  for (const auto& unit : flat_) units.push_back(unit->layout());
  return ModelLayout(std::move(units), root_);
}

FittedMemory Core::fit_memory() const {
  if (!options_.fit_memory) return {};
  return options_.fit_memory(options_, layout(), memory_->ledger().total(Tier::host), *gathers_);
}

void Core::plan_tiers() {
  const FittedMemory fit = fit_memory();
  std::vector<const UnitLayout*> layouts;
  std::vector<bool> resident;
  for (const auto& unit : flat_) {
    layouts.push_back(&unit->layout());
    resident.push_back(unit->resident());
  }
  tiers_ = zeroshard::plan_tiers(layouts, resident,
                                 {.stage = stage_,
                                  .offload = options_.offload,
                                  .first_host_unit = fit.first_host_unit,
                                  .micro_steps = options_.accumulation_steps,
                                  .gradients = gradient_plan(options_, stage_, *gathers_).types(),
                                  .speculates = updates_early(options_.zero),
                                  .undo_limit_bytes = fit.undo_limit_bytes,
                                  .delays = options_.zero.delayed_update,
                                  .moments = moments()});
  // The units' parameters are there already.
  const std::int64_t held = memory_->ledger().total(Tier::host);
  memory_->reserve_host(std::max<std::int64_t>(fit.host_state_bytes - held, 0));
  if (tiers_.first_host_unit < flat_.size()) {
    staging_ = std::make_unique<SlotRing>(tiers_.staging, Tier::host, *memory_);
  }
}

// The same arithmetic as the planner's, over what the units have become.
void Core::make_gatherer() {
  std::vector<UnitSize> units;
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
                                         pool, *memory_, parameter_order_, *gathers_);
  gatherer_->set_trace(options_.trace);
}

void Core::make_reducer() {
  reducer_ = std::make_unique<Reducer>(
      pointers(flat_),
      ReducerOptions{.gradients = gradient_plan(options_, stage_, *gathers_),
                     .bucket_numel = options_.zero.reduce_bucket_numel,
                     .overlap = options_.zero.overlap_comm.value_or(stage_.overlaps_by_default()),
                     .root_unit = root_,
                     .tiers = tiers_,
                     .staging = staging_.get(),
                     .pool = &pool_,
                     .trace = options_.trace,
                     .sums = options_.sums},
      *memory_, gradient_order_, *reductions_);
  const bool all_on_device = tiers_.first_host_unit == flat_.size();
  if (options_.shows_gradients && stage_keeps_local() && all_on_device) {
    shown_ = std::make_unique<ShownGradients>(pointers(flat_), *reducer_);
  }
}

void Core::make_updater() {
  UpdaterOptions updater{.parameter_groups = std::vector<std::vector<int>>(flat_.size()),
                         .stage = stage_,
                         .tiers = tiers_,
                         .halves_masters = options_.zero.halved_masters,
                         .delays = options_.zero.delayed_update,
                         .root_unit = root_,
                         .callers = options_.update,
                         .trace = options_.trace};
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    for (std::size_t p = 0; p < flat_[i]->parameters().size(); ++p) {
      const NamedParameter& parameter = flat_[i]->parameters()[p];
      updater.parameter_groups[i].push_back(parameter_group_of(options_, parameter.name));
      if (parameter.trained()) hooks_.emplace_back(parameter.tensor, weak_, i, p);
    }
  }
  updater.moments = moments();
  updater_ = std::make_unique<Updater>(pointers(flat_), std::move(updater),
                                       Updater::Parts{.gatherer = *gatherer_,
                                                      .reducer = *reducer_,
                                                      .memory = *memory_,
                                                      .parameter_order = parameter_order_,
                                                      .gradient_order = gradient_order_,
                                                      .pool = pool_,
                                                      .gate = gate_,
                                                      .staging = staging_.get()});
  if (updater_->delays()) {
    reducer_->before_writing([this](std::size_t unit) { updater_->wait_for_delayed(unit); });
  }
  if (updater_->speculation() == nullptr) return;
  reducer_->when_reducing([this](std::size_t unit, std::function<void()> is_there) {
    updater_->offer_early(unit, std::move(is_there));
  });
}

int Core::moments() const {
  int most = 0;
  for (const OptimizerOptions& group : options_.parameter_groups) {
    if (!options_.update) most = std::max(most, moments_per_parameter(group));
  }
  return most;
}

Core::~Core() {
  weak_->end();
  if (updater_) bring_back_parameters();
  // A gather that has failed is no reason to free what a reduction still reads.
  if (gatherer_) gatherer_->settle();
  if (updater_) updater_->settle_delayed();
  if (reducer_) reducer_->settle();
}

std::unique_lock<std::mutex> Core::enter() {
  std::unique_lock lock(mutex_);
  offloaded_.finish_move();
  if (kept_error_) std::rethrow_exception(std::exchange(kept_error_, nullptr));
  return lock;
}

void Core::keep_error(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!kept_error_) kept_error_ = std::move(error);
}

void Core::before_forward(std::size_t unit, bool trains) {
  const auto lock = enter();
  offloaded_.require({Category::parameters}, "a forward");
  drop_broken_backward();
  flat_[unit]->check_intact(trains);
  last_begun_ = unit;
  if (backward_->under_way()) {
    backward_->hold_for_recompute(unit);
  } else {
    forward_ran_ = forward_ran_ || trains;
    gatherer_->reach(trains ? PhaseKind::train_forward : PhaseKind::eval, unit);
  }
  times_.begin_forward(unit, backward_->under_way());
}

void Core::after_forward(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  times_.end_forward(unit, flat_[unit]->name());
  if (!backward_->under_way()) gatherer_->unhold(unit);
}

void Core::abandon_forward() {
  const std::lock_guard lock(mutex_);
  times_.drop_forwards();
  if (!backward_->under_way()) gatherer_->schedule().abandon_pass();
}

std::string Core::last_unit() {
  const std::lock_guard lock(mutex_);
  return last_begun_ ? flat_[*last_begun_]->name() : std::string();
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

void Core::quiesce() {
  {
    const auto lock = enter();
    const at::NoGradGuard no_grad;
    gatherer_->finish_phase();
    publish_delayed();
  }
  wait_for_parameters();
}

// Parameters change, so a graph that has read them is too old from here on.
void Core::publish_delayed() {
  if (updater_->publish_delayed()) uses_.note_update();
}

void Core::wait_for_parameters() {
  const auto lock = enter();
  gatherer_->finish_phase();
  gatherer_->wait_for_all();
  parameter_order_.before_write();  // after whatever other streams still do to parameters
  parameter_order_.current().synchronize();
}

void Core::wait_for_unit(std::size_t unit) {
  const auto lock = enter();
  gatherer_->wait(unit);
  parameter_order_.before_read();
}

void Core::gather_full(std::size_t unit, bool writes) {
  const auto lock = enter();
  const at::NoGradGuard no_grad;
  if (writes) gate_.wait_for_readers();
  offloaded_.require({Category::parameters}, "a scope of full parameters");
  if (writes) offloaded_.require({Category::master}, "a scope in which parameters are written");
  gatherer_->finish_phase();
  publish_delayed();
  gatherer_->hold(unit);
  // What others write into a released unit lies in another buffer than its shard.
  const bool keeps = writes && flat_[unit]->resident();
  try {
    if (keeps) states().keep_parameters(unit);
  } catch (...) {  // no memory: there is no scope
    gatherer_->unhold(unit);
    throw;
  }
  full_scopes_[unit].push_back(keeps);
}

void Core::release_full(std::size_t unit, Written written, int from) {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  const bool keeps = full_scopes_[unit].back();
  full_scopes_[unit].pop_back();
  if (written != Written::nothing) {
    adopt_full(unit, written, from);
  } else if (keeps) {
    states().restore_parameters(unit);
  }
  if (keeps) states().end_keeping(unit);
  gatherer_->unhold(unit);
  gatherer_->trim();
}

void Core::adopt_full(std::size_t unit, Written written, int from) {
  gate_.wait_for_readers();
  FlatUnit& flat = *flat_[unit];
  for (std::size_t group = 0; from >= 0 && group < flat.groups(); ++group) {
    gathers_->broadcast(flat.full_piece(group), from, flat.name()).wait();
  }
  const bool shard_is_old = !flat.resident() && written == Written::some;
  if (shard_is_old) states().keep_parameters(unit);
  flat.copy_full_to_shard();
  states().refresh_masters(unit, written);
  if (shard_is_old) states().end_keeping(unit);
}

void Core::empty_gather_pool() {
  const auto lock = enter();
  gatherer_->empty_pool();
}

void Core::adopt_masters(std::optional<std::size_t> only) {
  const auto lock = enter();
  offloaded_.require({Category::parameters, Category::master}, "a change of masters");
  const at::NoGradGuard no_grad;
  gate_.wait_for_all();
  gatherer_->finish_phase();
  gatherer_->wait_for_all();
  publish_delayed();
  gatherer_->wait_for_all();
  for (std::size_t unit = 0; unit < flat_.size(); ++unit) {
    if (unit == only.value_or(unit)) updater_->adopt_masters(unit);
  }
  gatherer_->wait_for_all();
}

void Core::finish_reductions() {
  const auto lock = enter();
  offloaded_.require({Category::gradients}, "reading gradients");
  reducer_->wait_for_own_spans();
  updater_->take_back_speculation();  // whoever reads G may write it
}

void Core::fill_parameters(const ParameterFiller& fill) {
  quiesce();
  gate_.wait_for_readers();
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  for (std::size_t unit = 0; unit < flat_.size(); ++unit) {
    flat_[unit]->fill(fill);
    states().refresh_masters(unit, Written::all);
  }
}

}  // namespace zeroshard
