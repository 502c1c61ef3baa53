// The step of the core.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/engine/core.h"
#include "zeroshard/monitor/trace.h"
#include "zeroshard/optim/sum_of_squares.h"
#include "zeroshard/optim/update_tensors.h"
#include "zeroshard/precision/gradient_scale.h"

namespace zeroshard {
namespace {

constexpr std::size_t kFindingsHead = sizeof(double) + 1;

}  // namespace

// A rank may have had nothing to compute or to differentiate in this micro-step. The others'
// gathers wait for it all the same, and their reductions for its zeros.
void Core::do_what_others_did() {
  if (!std::exchange(forward_ran_, false)) gatherer_->pass_over(PhaseKind::train_forward);
  // Nor may it have reduced what it has, where the caller says only afterwards that the step ends.
  const bool owes = at_boundary() && !reducer_->reduces();
  if (std::exchange(backward_ran_, false) && !owes) return;
  pass_backward();
}

StepResult Core::step() {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  drop_broken_backward();
  if (in_backward_) throw StateError({.what = "step() was called inside a backward"});
  if (shown_) shown_->take_back();
  gatherer_->finish_phase();
  do_what_others_did();
  if (!at_boundary()) {
    ++micro_steps_;
    return {};
  }
  micro_steps_ = 0;
  wait_for_reductions();
  const Agreement agreed = agree();
  const ClipInputs clip{.scaled_norm = agreed.norm,
                        .loss_scale = scaler_.scale(),
                        .clip = options_.precision.gradient_clipping};
  const bool skip = should_skip(options_.precision, agreed.norm);
  if (!skip && !options_.zero.ignore_unused_parameters) refuse_unused(agreed);
  if (!skip) apply(agreed, gradient_factor(clip));
  reducer_->end_step();
  if (agreed.order_changed) adopt_order();
  const StepResult result{.boundary = true,
                          .applied = !skip,
                          .gradient_norm = unscaled_norm(clip),
                          .loss_scale = scaler_.scale()};
  scaler_.update(skip);
  return result;
}

void Core::wait_for_reductions() {
  const Trace::Scope scope(options_.trace, Lane::compute, "wait for reductions");
  reducer_->wait_for_own_spans();
}

double Core::own_sum_of_squares() {
  double sum = 0.0;
  for (const Reducer::UnitGradients& unit : reducer_->units()) {
    for (const GradientGroup& group : unit.groups) {
      const Piece own = group.own_reduced();
      sum += memory_->device() == kCpu
                 ? sum_of_squares(own.data, own.dtype, own.count, pool_)
                 : sum_of_squares_on(memory_->device(), own.data, own.dtype, own.count);
    }
  }
  return sum;
}

// One small message from each rank: its sum of squares, whether units came in another order than
// planned, and which parameters had a gradient.
std::vector<std::uint8_t> Core::own_findings() {
  std::vector<std::uint8_t> mine(kFindingsHead);
  const double own = own_sum_of_squares();
  std::memcpy(mine.data(), &own, sizeof(own));
  mine[sizeof(double)] = order_changed() ? 1 : 0;
  for (const Reducer::UnitGradients& unit : reducer_->units()) {
    for (const bool present : unit.present) mine.push_back(present ? 1 : 0);
  }
  return mine;
}

Core::Agreement Core::agree() {
  const Trace::Scope scope(options_.trace, Lane::optimizer, "norm");
  const std::vector<std::uint8_t> mine = own_findings();
  const auto bytes = static_cast<std::int64_t>(mine.size());
  const int ranks = reductions_->world_size();
  std::vector<std::uint8_t> all(mine.size() * static_cast<std::size_t>(ranks));
  reductions_
      ->all_gather_into({{ConstPiece{mine.data(), bytes, DType::uint8},
                          Piece{all.data(), bytes * ranks, DType::uint8}}},
                        "norm")
      .wait();
  Agreement agreed{.present = std::vector<bool>(mine.size() - kFindingsHead),
                   .order_changed = all[sizeof(double)] != 0};
  double sum = 0.0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    const std::uint8_t* const from = all.data() + rank * mine.size();
    double part = 0.0;
    std::memcpy(&part, from, sizeof(part));
    sum += part;
    for (std::size_t i = 0; i < agreed.present.size(); ++i) {
      if (from[kFindingsHead + i] != 0) agreed.present[i] = true;
    }
  }
  agreed.norm = std::sqrt(sum);
  return agreed;
}

std::vector<std::vector<bool>> Core::by_unit(const std::vector<bool>& present) const {
  std::vector<std::vector<bool>> all;
  auto next = present.begin();
  for (const auto& unit : flat_) {
    const auto count = static_cast<std::ptrdiff_t>(unit->parameters().size());
    all.emplace_back(next, next + count);
    next += count;
  }
  return all;
}

// The step's gradients are gone, as after a step; nothing else has changed.
void Core::refuse_unused(const Agreement& agreed) {
  note_without_gradient(by_unit(agreed.present));
  if (without_gradient_.empty()) return;
  reducer_->end_step();
  throw StateError(
      {.what = "there are unused parameters in your model, which got no gradient on any rank",
       .value = fmt::format("{}", fmt::join(without_gradient_, ", ")),
       .remedy = "use or freeze them, or set zero_optimization.ignore_unused_parameters to true"});
}

void Core::apply(const Agreement& agreed, float factor) {
  reducer_->wait();
  const std::vector<std::vector<bool>> present = by_unit(agreed.present);
  note_without_gradient(present);
  options_.update ? update_by_caller(present, factor) : update_by_kernels(present, factor);
  if (root_) gatherer_->wait(*root_);  // nobody will announce its use
}

void Core::note_without_gradient(const std::vector<std::vector<bool>>& present) {
  without_gradient_.clear();
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    for (std::size_t p = 0; p < present[i].size(); ++p) {
      const NamedParameter& parameter = flat_[i]->parameters()[p];
      if (!present[i][p] && parameter.trained()) {
        without_gradient_.push_back(parameter.name);
      }
    }
  }
}

// In forward order: the next forward waits for each unit as it comes to it, and for no more.
void Core::update_by_kernels(const std::vector<std::vector<bool>>& present, float factor) {
  const UpdateSettings settings{options_.groups, factor};
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    gatherer_->wait(i);
    {
      const Trace::Scope scope(options_.trace, Lane::optimizer, "update", flat_[i]->name());
      states_->update(i, reducer_->units()[i], present[i], settings);
    }
    if (stage_.optimizer_states == Placement::sharded) gatherer_->refresh(i);
  }
}

void Core::update_by_caller(const std::vector<std::vector<bool>>& present, float factor) {
  gatherer_->wait_for_all();
  std::vector<at::Tensor> gradients;
  for (const MasterSegment& segment : master_segments_) {
    gradients.push_back(
        master_gradient(segment, reducer_->units()[segment.unit], present[segment.unit], factor));
  }
  {
    const Trace::Scope scope(options_.trace, Lane::optimizer, "update");
    options_.update(gradients);
  }
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    states_->write_parameters(i);
    if (stage_.optimizer_states == Placement::sharded) gatherer_->refresh(i);
  }
}

bool Core::order_changed() const {
  const GatherSchedule& schedule = gatherer_->schedule();
  return std::ranges::any_of(
      std::array{PhaseKind::train_forward, PhaseKind::backward}, [&](PhaseKind phase) {
        const Phase& seen = schedule.observed(phase);
        return !seen.empty() && schedule.merged(phase, seen) != schedule.planned(phase);
      });
}

// All take rank 0's order, from the next pass on. Evaluation is expected to go as training does.
void Core::adopt_order() {
  GatherSchedule& schedule = gatherer_->schedule();
  for (const PhaseKind phase : {PhaseKind::train_forward, PhaseKind::backward}) {
    const Phase& seen = schedule.observed(phase);
    auto count = static_cast<std::int32_t>(seen.size());
    reductions_->broadcast({&count, 1, DType::int32}, 0, "order").wait();
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < std::min(order.size(), seen.size()); ++i) {
      order[i] = static_cast<std::int32_t>(seen[i]);
    }
    reductions_->broadcast({order.data(), count, DType::int32}, 0, "order").wait();
    schedule.plan(phase, schedule.merged(phase, Phase(order.begin(), order.end())));
  }
  schedule.plan(PhaseKind::eval, schedule.planned(PhaseKind::train_forward));
}

void Core::quiesce() {
  const std::lock_guard lock(mutex_);
  gatherer_->finish_phase();
  gatherer_->wait_for_all();
}

void Core::gather_full(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  gatherer_->finish_phase();
  gatherer_->hold(unit);
}

void Core::release_full(std::size_t unit, Written written, int from) {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  if (written != Written::nothing) {
    for (std::size_t group = 0; from >= 0 && group < flat_[unit]->groups(); ++group) {
      gathers_->broadcast(flat_[unit]->full_piece(group), from, flat_[unit]->name()).wait();
    }
    flat_[unit]->take_over_full();
    states_->refresh_masters(unit, written);
  }
  gatherer_->unhold(unit);
  gatherer_->trim();
}

void Core::empty_gather_pool() {
  const std::lock_guard lock(mutex_);
  gatherer_->empty_pool();
}

void Core::adopt_masters(std::optional<std::size_t> only) {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  gatherer_->finish_phase();
  gatherer_->wait_for_all();
  for (std::size_t unit = 0; unit < flat_.size(); ++unit) {
    if (unit != only.value_or(unit)) continue;
    states_->write_parameters(unit);
    if (stage_.optimizer_states == Placement::sharded) gatherer_->refresh(unit);
  }
  gatherer_->wait_for_all();
}

void Core::finish_reductions() {
  const std::lock_guard lock(mutex_);
  reducer_->wait_for_own_spans();
}

void Core::fill_parameters(const ParameterFiller& fill) {
  quiesce();
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  for (std::size_t unit = 0; unit < flat_.size(); ++unit) {
    flat_[unit]->fill(fill);
    states_->refresh_masters(unit, Written::all);
  }
}

}  // namespace zeroshard
