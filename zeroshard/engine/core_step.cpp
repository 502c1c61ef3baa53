// The step of the core.
#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/error.h"
#include "zeroshard/engine/core.h"
#include "zeroshard/monitor/trace.h"
#include "zeroshard/precision/gradient_scale.h"

namespace zeroshard {

StepResult Core::step() {
  const auto lock = enter();
  const at::NoGradGuard no_grad;
  offloaded_.require({Category::parameters, Category::gradients, Category::master,
                      Category::moments, Category::buffers},
                     "step()");
  drop_broken_backward();
  if (backward_->under_way()) throw StateError({.what = "step() was called inside a backward"});
  take_back_shown();
  gatherer_->finish_phase();
  join_phases_of_others();
  if (!at_boundary()) {
    ++micro_steps_;
    return {};
  }
  micro_steps_ = 0;
  wait_for_reductions();
  const StepAgreement agreed = agree();
  const ClipInputs clip{.scaled_norm = agreed.norm,
                        .loss_scale = scaler_.scale(),
                        .clip = options_.precision.gradient_clipping};
  const bool skip = should_skip(options_.precision, agreed.norm);
  if (!skip && !options_.zero.ignore_unused_parameters) refuse_unused(agreed);
  if (skip) updater_->take_back_speculation();
  if (!skip) apply(agreed, gradient_factor(clip));
  updater_->note_step(!skip && gradient_factor(clip) == plain_factor());
  reducer_->end_step();
  if (agreed.order_changed) adopt_order(gatherer_->schedule(), *reductions_);
  const StepResult result{.boundary = true,
                          .applied = !skip,
                          .gradient_norm = unscaled_norm(clip),
                          .loss_scale = scaler_.scale()};
  scaler_.update(skip);
  return result;
}

// A rank may have had nothing to compute or to differentiate in this micro-step. The others'
// gathers wait for it all the same, and their reductions for its zeros.
void Core::join_phases_of_others() {
  if (!std::exchange(forward_ran_, false)) gatherer_->pass_over(PhaseKind::train_forward);
  // Nor may it have reduced what it has, where the caller says only afterwards that the step ends.
  const bool owes = at_boundary() && !reducer_->reduces();
  if (std::exchange(backward_ran_, false) && !owes) return;
  pass_over_backward();
}

void Core::wait_for_reductions() {
  const Trace::Scope scope(options_.trace, Lane::compute, "wait for reductions");
  reducer_->wait_for_own_spans();
}

StepFindings Core::own_findings() {
  StepFindings own{.sum_of_squares = updater_->sum_of_squares(),
                   .order_changed = order_changed(gatherer_->schedule())};
  for (const Reducer::UnitGradients& unit : reducer_->units()) {
    own.present.insert(own.present.end(), unit.present.begin(), unit.present.end());
  }
  return own;
}

StepAgreement Core::agree() {
  const Trace::Scope scope(options_.trace, Lane::optimizer, "norm");
  return zeroshard::agree(own_findings(), *reductions_);
}

// The step's gradients are gone, as after a step; nothing else has changed.
void Core::refuse_unused(const StepAgreement& agreed) {
  const std::vector<std::string>& unused = updater_->note_without_gradient(agreed.present);
  if (unused.empty()) return;
  updater_->take_back_speculation();
  reducer_->end_step();
  throw StateError(
      {.what = "there are unused parameters in your model, which got no gradient on any rank",
       .value = fmt::format("{}", fmt::join(unused, ", ")),
       .remedy = "use or freeze them, or set zero_optimization.ignore_unused_parameters to true"});
}

float Core::plain_factor() const { return gradient_factor({.loss_scale = scaler_.scale()}); }

void Core::apply(const StepAgreement& agreed, float factor) {
  reducer_->make_whole();
  updater_->apply(agreed.present, {options_.parameter_groups, factor});
  uses_.note_update();
  for (std::size_t unit = 0; unit < full_scopes_.size(); ++unit) {
    if (std::ranges::count(full_scopes_[unit], true) > 0) updater_->states().keep_updated(unit);
  }
  if (root_) gatherer_->wait(*root_);  // nobody will announce its use
}

}  // namespace zeroshard
