// Backward of the core: whose it is, what has been done to its loss, and what is seen of it after.
#include <memory>
#include <optional>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "zeroshard/base/error.h"
#include "zeroshard/engine/core.h"
#include "zeroshard/engine/tensors.h"

namespace zeroshard {
namespace {

// Says that an engine differentiates a loss which it has divided by so much (nothing: its caller
// has divided it): the parameters of another engine that this backward reaches need only the rest
// of their own division. torch carries it to all threads, and into all backwards inside, on which
// this one runs.
struct DividedLoss final : c10::DebugInfoBase {
  explicit DividedLoss(std::optional<double> parts_in) : parts(parts_in) {}
  const std::optional<double> parts;
};
// Of torch's kinds, one that it has no use for itself.
c10::DebugInfoKind divided_loss() { return c10::DebugInfoKind::TEST_INFO_2; }

// By what a loss that is to be divided by `parts` has still to be divided.
double divisor_owed(double parts) {
  const auto* const divided =
      static_cast<const DividedLoss*>(c10::ThreadLocalDebugInfo::get(divided_loss()));
  if (divided == nullptr) return parts;
  return divided->parts ? parts / *divided->parts : 1.0;
}

void refuse_unfit(const at::Tensor& loss) {
  if (loss.numel() == 1 && loss.requires_grad()) return;
  throw StateError({.what = "backward needs a loss of one number that depends on parameters",
                    .value = std::to_string(loss.numel()) + " numbers" +
                             (loss.requires_grad() ? "" : ", no gradient"),
                    .remedy = "reduce it with mean() or sum(), with gradients enabled"});
}

// backward() goes to all leaves; autograd's grad() only to those that it is given.
bool reaches_all_leaves() {
  const auto* const wanted = torch::autograd::get_current_graph_task_exec_info();
  return wanted == nullptr || wanted->empty();
}

}  // namespace

void Core::backward(const at::Tensor& loss, const BackwardOptions& options) {
  refuse_unfit(loss);
  {
    const std::lock_guard lock(mutex_);
    drop_broken_backward();
    if (in_backward_) throw StateError({.what = "backward() was called inside a backward"});
    begin_backward({});
  }
  std::optional<double> parts;
  if (options.averages) parts = static_cast<double>(options_.accumulation_steps);
  try {
    const c10::DebugInfoGuard divided(divided_loss(), std::make_shared<DividedLoss>(parts));
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
    const std::lock_guard lock(mutex_);
    drop_broken_backward();
  }
  const bool narrow = at::isReducedFloatingType(loss.scalar_type());
  const at::Tensor scaled = (narrow ? loss.to(at::kFloat) : loss).mul(scaler_.scale());
  if (!scales_loss() || !scaled.requires_grad()) return scaled;
  scaled.register_hook([link = link_](const at::Tensor& gradient) {
    return link->core == nullptr ? gradient : link->core->divide_scaled(gradient);
  });
  return scaled;
}

at::Tensor Core::divide_scaled(const at::Tensor& gradient) {
  const std::lock_guard lock(mutex_);
  const LossState done;
  in_backward_ ? void(loss_ = done) : open_backward(done);
  return gradient.div(static_cast<double>(options_.accumulation_steps));
}

// What a gradient would be in a backward of ours: of the parameter's dtype (torch no longer sees to
// that where `.grad` has another), and divided by the micro-steps of a step.
at::Tensor Core::as_ours(const at::Tensor& gradient, const at::Tensor& parameter) const {
  const at::Tensor own = gradient.to(parameter.scalar_type());
  if (loss_.divisor == 1.0) return own;
  return own.to(to_torch(options_.precision.accumulation())).div(loss_.divisor);
}

Core::LossState Core::somebodys_loss() const {
  return {.scaled = !scales_loss(),
          .divisor = divisor_owed(static_cast<double>(options_.accumulation_steps))};
}

void Core::refuse_unscaled() const {
  throw StateError({.what = "Loss scaling is required in fp16, and backward() was called without",
                    .value = fmt::format("the loss scale is {:g}", scaler_.scale()),
                    .remedy = "call engine.scale(loss).backward(), or engine.backward(loss)"});
}

void Core::begin_backward(LossState loss) {
  check_root();
  if (shown_) shown_->take_back();
  gatherer_->finish_phase();
  if (!std::exchange(forward_ran_, true)) gatherer_->pass_over(PhaseKind::train_forward);
  in_backward_ = backward_ran_ = true;
  autograd_is_over_ = false;
  loss_ = loss;
  reducer_->begin_backward(at_boundary() || !stage_keeps_local());
}

// In a backward that is not ours (loss.backward()), the first hook comes here. One that must not go
// on is refused before anything has changed, and by grad(), once a gradient comes.
void Core::open_backward() {
  if (in_backward_) return;
  const LossState loss = somebodys_loss();
  if (!loss.scaled && reaches_all_leaves()) refuse_unscaled();
  open_backward(loss);
}

void Core::open_backward(LossState loss) {
  begin_backward(loss);
  torch::autograd::Engine::get_default_engine().queue_callback([link = link_] {
    if (link->core == nullptr) return;
    {
      const std::lock_guard lock(link->core->mutex_);
      link->core->close_backward();
    }
    link->core->report_backward();
  });
}

// The backward of a rank that has nothing (more) to differentiate: its reductions alone.
void Core::pass_backward() {
  autograd_is_over_ = true;
  reducer_->begin_backward(at_boundary() || !stage_keeps_local());
  gatherer_->pass_over(PhaseKind::backward);
  reducer_->end_backward();
  gather_to_show();
}

// All ranks do so at the same place, whether or not they show anything to anybody.
void Core::gather_to_show() {
  const bool replicated = stage_.gradients_reduced == Placement::replicated;
  if (shown_ && replicated && reducer_->reduces()) reducer_->wait();
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
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  drop_broken_backward();
  if (in_backward_) throw StateError({.what = "gradients are reduced inside a backward"});
  if (std::exchange(backward_ran_, true) && reducer_->reduces()) return;
  if (shown_) shown_->take_back();
  if (!std::exchange(forward_ran_, true)) gatherer_->pass_over(PhaseKind::train_forward);
  const std::optional<bool> boundary = std::exchange(boundary_, true);
  pass_backward();
  boundary_ = boundary;
  show_gradients();
}

}  // namespace zeroshard
