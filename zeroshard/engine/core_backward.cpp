// Backward of the core: whose it is, what has been done to its loss, and what is seen of it after.
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "zeroshard/base/error.h"
#include "zeroshard/engine/core.h"
#include "zeroshard/engine/tensors.h"

namespace zeroshard {

void Core::backward(const at::Tensor& loss, const BackwardOptions& options) {
  refuse_unfit(loss);
  {
    const auto lock = enter();
    drop_broken_backward();
    if (backward_->under_way()) {
      throw StateError({.what = "backward() was called inside a backward"});
    }
    begin_backward({});
  }
  std::optional<double> parts;
  if (options.averages) parts = static_cast<double>(options_.accumulation_steps);
  try {
    const DividedLossScope divided(parts);
    torch::autograd::backward({loss}, {at::full_like(loss, scaler_.scale() / parts.value_or(1.0))},
                              options.keeps_graph);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    drop_backward();
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    close_backward();
  }
  report_backward();
}

// In fp16 the loss is divided here and not at the parameters, so that what lies between is as large
// as in a backward of ours, and overflows when that does.
at::Tensor Core::scale(const at::Tensor& loss) {
  refuse_unfit(loss);
  {
    const auto lock = enter();
    drop_broken_backward();
  }
  const bool narrow = at::isReducedFloatingType(loss.scalar_type());
  const at::Tensor scaled = (narrow ? loss.to(at::kFloat) : loss).mul(scaler_.scale());
  if (!scales_loss() || !scaled.requires_grad()) return scaled;
  scaled.register_hook([weak = weak_](const at::Tensor& gradient) {
    const CoreAccess core(weak);
    return core ? core->divide_scaled(gradient) : gradient;
  });
  return scaled;
}

at::Tensor Core::divide_scaled(const at::Tensor& gradient) {
  const auto lock = enter();
  const LossState done;
  backward_->under_way() ? void(loss_ = done) : open_backward(done);
  return gradient.div(static_cast<double>(options_.accumulation_steps));
}

// What a gradient would be in a backward of ours: of the parameter's dtype (torch no longer sees to
// that where `.grad` has another), and divided by the micro-steps of a step.
at::Tensor Core::as_ours(const at::Tensor& gradient, const at::Tensor& parameter) const {
  const at::Tensor own = gradient.to(parameter.scalar_type());
  if (loss_.divisor == 1.0) return own;
  return own.to(to_torch(options_.precision.accumulation())).div(loss_.divisor);
}

LossState Core::somebodys_loss() const {
  return {.scaled = !scales_loss(),
          .divisor = divisor_owed(static_cast<double>(options_.accumulation_steps))};
}

void Core::refuse_unscaled() const {
  throw StateError({.what = "Loss scaling is required in fp16, and backward() was called without",
                    .value = fmt::format("the loss scale is {:g}", scaler_.scale()),
                    .remedy = "call engine.scale(loss).backward(), or engine.backward(loss)"});
}

void Core::begin_backward(LossState loss) {
  offloaded_.require({Category::parameters, Category::gradients, Category::buffers}, "a backward");
  if (root_) flat_[*root_]->check_intact();  // nobody calls it, so it is looked at here
  take_back_shown();
  gatherer_->finish_phase();
  gatherer_->wait_for_updates();  // they read G, which is about to be written
  if (!std::exchange(forward_ran_, true)) gatherer_->pass_over(PhaseKind::train_forward);
  backward_ran_ = true;
  loss_ = loss;
  updater_->take_back_speculation();  // what this backward brings changes G
  backward_->begin(reduces_now(), at_boundary());
  // An early update would not wait for who still reads its unit's states.
  if (at_boundary() && !gate_.is_closed()) {
    updater_->begin_speculation({options_.parameter_groups, plain_factor()});
  }
}

// In a backward that is not ours (loss.backward()), the first hook comes here. One that must not go
// on is refused before anything has changed, and by grad(), once a gradient comes.
void Core::open_backward() {
  if (backward_->under_way()) return;
  const LossState loss = somebodys_loss();
  if (!loss.scaled && reaches_all_leaves()) refuse_unscaled();
  open_backward(loss);
}

void Core::open_backward(LossState loss) {
  begin_backward(loss);
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_] {
    const CoreAccess core(weak);
    if (!core) return;
    {
      const std::lock_guard lock(core->mutex_);
      core->close_backward();
    }
    core->report_backward();
  });
}

void Core::before_backward(const UnitUses::Id& use) {
  const auto lock = enter();
  open_backward();
  last_begun_ = use.unit;
  backward_->reach(use);
}

void Core::after_backward(const UnitUses::Id& use) {
  const auto lock = enter();
  backward_->end_use(use);
}

void Core::capture(std::size_t unit, std::size_t parameter, const at::Tensor& gradient) {
  const auto lock = enter();
  open_backward();
  if (!loss_.scaled) refuse_unscaled();
  backward_->capture(unit, parameter,
                     as_ours(gradient, flat_[unit]->parameters()[parameter].tensor));
}

bool Core::recomputes() const {
  return backward_->under_way() && torch::autograd::get_current_graph_task_id() >= 0;
}

void Core::begin_recompute() {
  if (torch::autograd::get_current_graph_task_id() < 0) return;
  const auto lock = enter();
  open_backward();
  backward_->enter_task();
}

void Core::end_recompute(std::size_t held_before) {
  const auto lock = enter();
  backward_->end_recompute(held_before);
}

void Core::close_backward() {
  if (!backward_->under_way()) return;
  backward_->close();
  show_gradients();
}

// What earlier micro-steps have brought is mixed with it: the accumulation begins anew.
void Core::drop_backward() {
  updater_->take_back_speculation();
  backward_->drop();
  micro_steps_ = 0;
}

// A backward that was not ours (loss.backward()) and threw has told nobody that it is over.
void Core::drop_broken_backward() {
  if (backward_->under_way() && !recomputes()) drop_backward();
}

// Zeros are written into G, as gradients are.
void Core::pass_over_backward() {
  gatherer_->wait_for_updates();
  updater_->take_back_speculation();
  backward_->pass_over(reduces_now());
  gather_to_show();
}

// All ranks do so at the same place, whether or not they show anything to anybody.
void Core::gather_to_show() {
  const bool replicated = stage_.gradients_reduced == Placement::replicated;
  if (shown_ && replicated && reducer_->reduces()) reducer_->make_whole();
}

void Core::take_back_shown() {
  if (!shows_gradients()) return;
  gradient_order_.before_write();
  shown_->take_back();
}

void Core::show_gradients() {
  gather_to_show();
  if (!shown_) return;
  if (reducer_->whole()) {
    shown_->show_reduced();
  } else if (shows_local_ && !reducer_->reduces()) {
    shown_->show_local();
  }
}

void Core::report_backward() const {
  if (options_.after_backward) options_.after_backward(shows_gradients());
}

void Core::show_local(bool on) {
  const std::lock_guard lock(mutex_);
  shows_local_ = on;
}

// A rank that had no backward brings zeros, so that the others' reductions find theirs.
void Core::reduce_gradients() {
  const auto lock = enter();
  const at::NoGradGuard no_grad;
  offloaded_.require({Category::parameters, Category::gradients, Category::buffers},
                     "a reduction of gradients");
  drop_broken_backward();
  if (backward_->under_way()) throw StateError({.what = "gradients are reduced inside a backward"});
  if (std::exchange(backward_ran_, true) && reducer_->reduces()) return;
  take_back_shown();
  if (!std::exchange(forward_ran_, true)) gatherer_->pass_over(PhaseKind::train_forward);
  const std::optional<bool> boundary = std::exchange(boundary_, true);
  pass_over_backward();
  boundary_ = boundary;
  show_gradients();
}

}  // namespace zeroshard
