#include "zeroshard/engine/shown_gradients.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "zeroshard/engine/plain_dispatch.h"
#include "zeroshard/engine/tensors.h"

namespace zeroshard {

ShownGradients::ShownGradients(const std::vector<FlatUnit*>& units, Reducer& reducer)
    : units_(units), reducer_(reducer) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const std::vector<NamedParameter>& parameters = units_[unit]->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].trained()) continue;
      all_.push_back({.unit = unit, .index = i, .parameter = parameters[i].tensor});
    }
  }
}

ShownGradients::~ShownGradients() {
  const PlainDispatch plain;
  for (Shown& one : all_) {
    at::Tensor& shown = one.parameter.mutable_grad();
    if (one.visible && shown.is_same(one.view)) shown.reset();
    if (one.any_dtype && !shown.defined()) {
      one.parameter.set_grad_dtype(one.parameter.scalar_type());
    }
    // Somebody has kept the gradient, and its memory goes with the engine.
    if (one.view.defined() && one.view.use_count() > 1) give_own_memory(one.view);
  }
}

ShownGradients::Place ShownGradients::place_of(const Shown& one) const {
  Reducer::UnitGradients& unit = reducer_.units()[one.unit];
  const UnitLayout::Location at = units_[one.unit]->layout().locate(one.index);
  return {unit, unit.groups[*unit.group_of[at.group]], at.index};
}

void ShownGradients::show_reduced() { show(false); }

void ShownGradients::show_local() { show(true); }

void ShownGradients::show(bool local) {
  active_ = true;
  local_ = local;
  for (Shown& one : all_) {
    const Place place = place_of(one);
    const bool others_bring_some = !local && units_[one.unit]->options().world_size > 1;
    // An earlier backward of this step may have been reduced: it is not in the local sum any more.
    one.present =
        local ? place.group.written(place.index) : static_cast<bool>(place.unit.present[one.index]);
    one.visible = one.present || others_bring_some;
    at::Tensor& shown = one.parameter.mutable_grad();
    shown.reset();
    if (!one.visible) continue;
    at::Tensor view = view_of(one, local);
    if (!one.any_dtype && view.scalar_type() != one.parameter.scalar_type()) {
      one.parameter.set_grad_dtype(std::nullopt);
      one.any_dtype = true;
    }
    shown = one.view = std::move(view);
    one.version = one.view._version();
  }
}

// The one that was shown before, where the gradient still lies there: nothing is made at a step.
at::Tensor ShownGradients::view_of(const Shown& one, bool local) const {
  const Place place = place_of(one);
  if (place.group.is_held()) {
    if (!place.group.held(place.index).defined()) {
      place.group.hold(place.index, at::zeros_like(one.parameter));
    }
    return place.group.held(place.index);
  }
  const Piece whole = local ? place.group.all_local() : place.group.all_reduced();
  const Span& span = place.group.group().layout.parameter_span(place.index);
  void* const begin = element_at(whole.data, span.begin(), whole.dtype);
  const bool in_place = one.view.defined() && one.view.data_ptr() == begin &&
                        one.view.scalar_type() == to_torch(whole.dtype);
  if (in_place) return one.view;
  const Device device = units_[one.unit]->memory()->device();
  return tensor_over(begin, span.size(), whole.dtype, device).view(one.parameter.sizes());
}

void ShownGradients::take_back() {
  if (!std::exchange(active_, false)) return;
  const at::NoGradGuard no_grad;
  for (Shown& one : all_) {
    at::Tensor now = std::exchange(one.parameter.mutable_grad(), at::Tensor());
    if (!now.defined() && !one.visible) continue;
    const bool shown_here = one.visible && now.is_same(one.view);
    one.view = view_of(one, local_);  // another one where somebody has set the shown one's `.data`
    if (!now.defined()) {
      drop(one);
    } else if (!shown_here || !now.is_same(one.view)) {
      one.view.copy_(now.is_sparse() ? now.to_dense() : now);
      adopt(one);
    } else if (is_written(one)) {
      adopt(one);
    }
    one.visible = false;
    if (place_of(one).group.is_held()) one.view.reset();  // its memory goes when the step is over
  }
}

// Zeros that stand for no gradient stay none, whatever factor they are multiplied by (clipping does
// that with all of them): a parameter that nobody used must not move.
bool ShownGradients::is_written(const Shown& one) const {
  if (one.present) return one.view._version() != one.version;
  return one.view.count_nonzero().item<std::int64_t>() > 0;
}

void ShownGradients::adopt(Shown& one) {
  const Place place = place_of(one);
  place.unit.present[one.index] = true;
  if (local_) place.group.note_written(place.index);
}

// What an earlier backward of the step brought, and what is reduced already, is not dropped with
// the local sum.
void ShownGradients::drop(Shown& one) {
  one.view.zero_();
  const Place place = place_of(one);
  const bool keeps_reduced = local_ && place.group.holds_reduced();
  if (!keeps_reduced) place.unit.present[one.index] = false;
}

}  // namespace zeroshard
