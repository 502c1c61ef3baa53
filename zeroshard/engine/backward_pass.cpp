#include "zeroshard/engine/backward_pass.h"

#include <torch/csrc/autograd/graph_task.h>

#include "zeroshard/base/error.h"

namespace zeroshard {

BackwardPass::BackwardPass(const Parts& parts) : of_(parts), held_(parts.units.size()) {
  of_.gatherer.when_skipped([this](std::size_t unit) { skip(unit); });
}

void BackwardPass::begin(bool reduces, bool ends_step) {
  under_way_ = true;
  task_entered_ = autograd_is_over_ = false;
  of_.reducer.begin_backward(reduces, ends_step);
}

void BackwardPass::enter_task() {
  if (task_entered_) return;
  task_entered_ = true;
  of_.uses.enter_task(torch::autograd::get_current_graph_task_nodes_in_graph());
}

// Parameters are written behind autograd's back, so it cannot notice that a graph is too old.
void BackwardPass::refuse_outdated(const UnitUses::Id& use) const {
  const bool trained = of_.units[use.unit]->layout().totals().trainable_numel > 0;
  if (!trained || !of_.uses.is_outdated(use)) return;
  throw StateError({.what = "this graph was made before the last step, or before the values of a "
                            "delayed update were "
                            "asked for, which has changed the parameters it reads",
                    .value = "unit " + name_of(use.unit),
                    .remedy = "compute the loss again after step(), or call backward before it"});
}

void BackwardPass::reach(const UnitUses::Id& use) {
  enter_task();
  refuse_outdated(use);
  if (!held_[use.unit]) {
    of_.gatherer.reach(PhaseKind::backward, use.unit);
    held_[use.unit] = true;
  }
  of_.times.begin_backward(use.unit);
}

void BackwardPass::end_use(const UnitUses::Id& use) {
  of_.uses.end(use);
  if (of_.uses.awaited(use.unit) == 0) finish(use.unit);
}

void BackwardPass::capture(std::size_t unit, std::size_t parameter, const at::Tensor& gradient) {
  enter_task();
  if (unit != of_.root) of_.times.begin_backward(unit);  // the root's would be open to the very end
  of_.reducer.capture(unit, parameter, gradient);
  finish_by_gradients(unit);
  if (completes_by_gradients() && of_.uses.awaited(unit) == 0 && of_.reducer.all_captured(unit)) {
    of_.reducer.complete(unit);
  }
}

// A unit in mid-model of which no input needs a gradient (the first of a second tower). The other
// ranks wait for its reduction before backward ends, so it is over when all its gradients are here.
// A frozen parameter may still be needed for a gradient outside the unit: then it stays gathered.
void BackwardPass::finish_by_gradients(std::size_t unit) {
  if (!of_.reducer.all_captured(unit) || !of_.uses.ends_by_gradients(unit)) return;
  const LayoutTotals& totals = of_.units[unit]->layout().totals();
  totals.trainable_numel == totals.numel ? finish(unit) : of_.reducer.complete(unit);
}

// A part of a unit may have been used before the unit was called; its gradient comes when the
// unit's backward is over. Where nothing is gathered in backward, nobody waits for the others at a
// unit, so it is complete when its gradients are here, or else when backward ends.
void BackwardPass::finish(std::size_t unit) {
  if (!completes_by_gradients() || of_.reducer.all_captured(unit)) of_.reducer.complete(unit);
  of_.times.end_backward(unit, name_of(unit));
  if (!held_[unit]) return;
  held_[unit] = false;
  of_.gatherer.unhold(unit);
}

// A rank that uses the unit reduces its gradients here, before it gathers the next one. So must a
// rank that does not, or the two would wait for each other.
void BackwardPass::skip(std::size_t unit) {
  if (!of_.reducer.in_backward() || unit == of_.root) return;
  // Where nothing is gathered no gather is waited for, and a unit may be used without being called.
  if (completes_by_gradients()) return;
  if (autograd_is_over_ || of_.uses.in_task(unit) == 0) of_.reducer.complete(unit);
}

void BackwardPass::close() {
  autograd_is_over_ = true;
  for (std::size_t unit = 0; unit < held_.size(); ++unit) {
    if (held_[unit]) finish(unit);
    of_.times.end_backward(unit, name_of(unit));  // of one that was used without being called
  }
  recompute_held_.clear();
  of_.gatherer.finish(PhaseKind::backward);  // the loss may depend on no unit that others gather
  of_.reducer.end_backward();
  of_.uses.leave_task();
  under_way_ = false;
}

void BackwardPass::drop() {
  of_.reducer.drop_backward();
  of_.uses.leave_task();
  recompute_held_.clear();
  held_.assign(held_.size(), false);
  of_.times.drop_backwards();
  of_.gatherer.schedule().abandon_pass();
  of_.gatherer.drop_holds();
  under_way_ = false;
}

void BackwardPass::pass_over(bool reduces) {
  autograd_is_over_ = true;
  of_.reducer.begin_backward(reduces, reduces);
  of_.gatherer.pass_over(PhaseKind::backward);
  of_.reducer.end_backward();
}

void BackwardPass::hold_for_recompute(std::size_t unit) {
  enter_task();
  if (held_[unit]) return;
  of_.gatherer.reach(PhaseKind::backward, unit);
  held_[unit] = true;
  recompute_held_.push_back(unit);
}

void BackwardPass::end_recompute(std::size_t held_before) {
  while (recompute_held_.size() > held_before) {
    const std::size_t unit = recompute_held_.back();
    recompute_held_.pop_back();
    if (!held_[unit]) continue;
    held_[unit] = false;
    of_.gatherer.unhold(unit);
  }
}

}  // namespace zeroshard
