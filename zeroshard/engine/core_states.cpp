#include "zeroshard/engine/core_states.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "zeroshard/engine/tensors.h"
#include "zeroshard/optim/moment_names.h"

namespace zeroshard {
namespace {

// A part of a parameter, in what a rank holds of its group from element `origin` of the group on.
struct Part {
  Span elements;
  std::int64_t at = 0;
};

Part part_of(const FlatLayout& layout, std::size_t index, const Span& held) {
  const Span& whole = layout.parameter_span(index);
  const Span own = whole.intersect(held);
  return {own.empty() ? Span() : own.shifted(-whole.begin()),
          own.empty() ? 0 : own.begin() - held.begin()};
}

}  // namespace

CoreStates::CoreStates(Core& core)
    : core_(core), states_(core.states()), side_(core.reading_stream()) {
  order_reads();
  // The root unit first: whoever calls step() waits for it.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < core_.units(); ++i) order.push_back(i);
  std::ranges::stable_partition(order,
                                [&](std::size_t i) { return !core_.unit(i).has_call_point(); });
  for (const std::size_t unit : order) append_unit(unit);
  const auto is_trained = [&](const HeldState& state) { return tensors_[state.tensor].trained; };
  std::ranges::stable_partition(owned_, is_trained);
}

// The side stream waits for nothing by itself: it comes after the updates that the device has been
// given so far, on whatever stream. Later ones wait for who reads (UpdateGate).
void CoreStates::order_reads() {
  if (!side_) return;
  for (std::size_t unit = 0; unit < core_.units(); ++unit) core_.wait_for_unit(unit);
  Event updated;
  updated.record(Stream::current(side_->device()));
  side_->wait(updated);
}

void CoreStates::begin_reading(const std::set<std::size_t>& units) {
  order_reads();
  core_.gate().close(units);
}

void CoreStates::append_unit(std::size_t unit) {
  for (std::size_t i = 0; i < core_.unit(unit).parameters().size(); ++i) {
    append_parameter({.unit = unit, .parameter = i});
  }
}

void CoreStates::append_parameter(const Place& place) {
  const FlatUnit& flat = core_.unit(place.unit);
  const UnitLayout::Location at = flat.layout().locate(place.parameter);
  const FlatGroup& group = flat.layout().groups()[at.group];
  const FlatLayout& layout = group.layout;
  const bool trained = group.trainable;
  TensorRecord record{.name = flat.parameters()[place.parameter].name,
                      .shape = flat.layout().parameters()[place.parameter].dims,
                      .dtype = group.dtype,
                      .trained = trained,
                      .updates = states_.steps(place.unit, place.parameter),
                      .states = {"value"}};
  if (trained && states_.states(place.unit, at.group).moments[0] != nullptr) {
    const auto id = static_cast<std::size_t>(states_.group_id(place.unit, place.parameter));
    for (std::string& name : moment_names(core_.parameter_groups().at(id))) {
      record.states.push_back(std::move(name));
    }
  }
  tensors_.push_back(std::move(record));
  places_.push_back(place);

  const Span all(0, layout.padded_numel());
  const Span shard = layout.shard(flat.rank());
  const bool holds_all =
      trained ? states_.states(place.unit, at.group).owned_numel == layout.padded_numel()
              : flat.resident();
  const Part held = part_of(layout, at.index, holds_all ? all : shard);
  const Part owned = part_of(layout, at.index, shard);
  HeldState state{.tensor = tensors_.size() - 1,
                  .dtype = trained ? DType::fp32 : group.dtype,
                  .elements = held.elements,
                  .unit = place.unit,
                  .group = at.group,
                  .at = held.at};
  append_states(state, held_);
  state.elements = owned.elements;
  state.at = owned.at + (holds_all ? shard.begin() : 0);
  append_states(state, owned_);
}

void CoreStates::append_states(HeldState first, std::vector<HeldState>& all) const {
  const TensorRecord& tensor = tensors_[first.tensor];
  // A tensor without elements is rank 0's, so that it is there at all.
  const bool is_empty = std::ranges::count(tensor.shape, 0) > 0;
  if (first.elements.empty() && (!is_empty || core_.unit(first.unit).rank() != 0)) return;
  for (const std::string& name : tensor.states) {
    all.push_back(first);
    all.back().state = name;
    ++first.moment;
  }
}

// What no update writes, or a moment. Masters have functions of their own.
at::Tensor CoreStates::memory_of(const HeldState& state, std::int64_t begin,
                                 std::int64_t count) const {
  if (state.moment >= 0) {
    const OptimizerStates::GroupStates of = states_.states(state.unit, state.group);
    float* const data = of.moments[static_cast<std::size_t>(state.moment)];
    return tensor_over(data + begin, count, DType::fp32, of.device);
  }
  const FlatUnit& flat = core_.unit(state.unit);
  void* const data = flat.resident() ? flat.full(state.group) : flat.shard(state.group);
  return tensor_over(element_at(data, begin, state.dtype), count, state.dtype, flat.shard_device());
}

void CoreStates::read(const HeldState& state, const Span& elements, void* into) const {
  if (!side_) return copy_out(state, elements, into);
  side_->run([&] { copy_out(state, elements, into); });
  side_->synchronize();
}

void CoreStates::copy_out(const HeldState& state, const Span& elements, void* into) const {
  const at::NoGradGuard no_grad;
  const std::int64_t begin = state.at + elements.begin() - state.elements.begin();
  const bool is_master = state.moment < 0 && tensors_[state.tensor].trained;
  const at::Tensor values = is_master
                                ? states_.masters(state.unit, state.group, begin, elements.size())
                                : memory_of(state, begin, elements.size());
  tensor_over(into, elements.size(), state.dtype, kCpu).copy_(values);
}

std::int64_t CoreStates::write(const HeldState& state, const Span& elements, const void* from,
                               DType dtype) {
  core_.gate().wait_for_readers();
  const at::NoGradGuard no_grad;
  const std::int64_t begin = state.at + elements.begin() - state.elements.begin();
  const at::Tensor values = tensor_over(const_cast<void*>(from), elements.size(), dtype, kCpu);
  if (state.moment < 0 && tensors_[state.tensor].trained) {
    return states_.write_masters(state.unit, state.group, begin, values);
  }
  memory_of(state, begin, elements.size()).copy_(values);
  return 0;
}

void CoreStates::set_updates(std::size_t tensor, std::int64_t updates) {
  states_.set_steps(places_[tensor].unit, places_[tensor].parameter, updates);
}

}  // namespace zeroshard
