#include "zeroshard/engine/optimizer_states.h"

#include <algorithm>
#include <map>
#include <utility>

#include <ATen/ops/where.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/engine/tensors.h"

namespace zeroshard {
namespace {

constexpr int kAbsent = -1;

float* floats_at(const StateBuffer& buffer, std::int64_t offset) {
  return static_cast<float*>(buffer.data()) + offset;
}

// Learning rates may change while training goes on, but there is no memory for a moment that was
// not there at the start.
void refuse_more_moments(const OptimizerOptions& options, std::size_t has) {
  const auto wants = static_cast<std::size_t>(moments_per_parameter(options));
  if (wants <= has) return;
  throw StateError({.what = "a parameter group needs more moments than the engine was made with",
                    .value = std::to_string(wants) + " against " + std::to_string(has),
                    .remedy = "give the optimizer and its momentum when the engine is made"});
}

// Piece by piece, so that what is computed on the way stays small.
void take_changed(const at::Tensor& masters, const at::Tensor& parameters) {
  constexpr std::int64_t kPiece = 1 << 20;
  for (std::int64_t begin = 0; begin < masters.numel(); begin += kPiece) {
    const std::int64_t count = std::min(kPiece, masters.numel() - begin);
    const at::Tensor master = masters.narrow(0, begin, count);
    const at::Tensor parameter = parameters.narrow(0, begin, count).to(master.device());
    const at::Tensor same = master.to(parameter.scalar_type()).eq(parameter);
    master.copy_(at::where(same, master, parameter.to(at::kFloat)));
  }
}

}  // namespace

OptimizerStates::OptimizerStates(const std::vector<FlatUnit*>& units,
                                 std::vector<std::vector<int>> group_ids, int moments,
                                 const Stage& stage, const TierPlan& tiers, StateMemory& memory)
    : sharded_(stage.optimizer_states == Placement::sharded), memory_(memory) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    Unit& unit = units_.emplace_back(Unit{.flat = units[i],
                                          .tier = tiers.optimizer(i),
                                          .groups = std::vector<Group>(units[i]->groups()),
                                          .group_ids = std::move(group_ids[i]),
                                          .steps = {}});
    unit.steps.assign(units[i]->parameters().size(), 0);
    for (std::size_t group = 0; group < unit.groups.size(); ++group) {
      make_group(unit, group, moments);
    }
  }
}

void OptimizerStates::make_group(Unit& unit, std::size_t group, int moments) {
  const FlatGroup& flat = unit.flat->layout().groups()[group];
  Group& made = unit.groups[group];
  made.trainable = flat.trainable;
  if (!flat.trainable) return;
  const std::int64_t owned = sharded_ ? flat.layout.shard_numel() : flat.layout.padded_numel();
  const std::int64_t bytes = owned * bytes_of(DType::fp32);
  for (int i = 0; i < moments; ++i) {
    made.moments.push_back(memory_.allocate(Category::moments, unit.tier, bytes));
    tensor_over(made.moments.back().data(), owned, DType::fp32, device_of(unit.tier)).zero_();
  }
  // In fp32 a parameter is its own master, where both lie on one tier.
  if (flat.dtype == DType::fp32 && unit.tier == unit.flat->options().tier) return;
  made.master = memory_.allocate(Category::master, unit.tier, bytes);
  tensor_over(made.master.data(), owned, DType::fp32, device_of(unit.tier))
      .copy_(parameters_of(unit, group));
}

void* OptimizerStates::owned_parameters(const Unit& unit, std::size_t group) const {
  return sharded_ ? unit.flat->shard(group) : unit.flat->full(group);
}

at::Tensor OptimizerStates::parameters_of(const Unit& unit, std::size_t group) const {
  const FlatGroup& flat = unit.flat->layout().groups()[group];
  const std::int64_t owned = sharded_ ? flat.layout.shard_numel() : flat.layout.padded_numel();
  return tensor_over(owned_parameters(unit, group), owned, flat.dtype, unit.flat->shard_device());
}

void OptimizerStates::refresh_masters(std::size_t unit, Written written) {
  Unit& of = units_[unit];
  for (std::size_t group = 0; group < of.groups.size(); ++group) {
    if (!of.groups[group].master || written == Written::nothing) continue;
    const GroupStates to = states(unit, group);
    const at::Tensor master = tensor_over(to.master, to.owned_numel, DType::fp32, to.device);
    const at::Tensor parameters = parameters_of(of, group);
    written == Written::all ? void(master.copy_(parameters)) : take_changed(master, parameters);
  }
}

void OptimizerStates::write_parameters(std::size_t unit) {
  const Unit& of = units_[unit];
  for (std::size_t group = 0; group < of.groups.size(); ++group) {
    if (!of.groups[group].master) continue;
    const GroupStates from = states(unit, group);
    parameters_of(of, group).copy_(
        tensor_over(from.master, from.owned_numel, DType::fp32, from.device));
  }
}

OptimizerStates::GroupStates OptimizerStates::states(std::size_t unit, std::size_t group) const {
  const Unit& of = units_[unit];
  const Group& made = of.groups[group];
  const FlatLayout& layout = of.flat->layout().groups()[group].layout;
  GroupStates states;
  states.device = device_of(of.tier);
  states.owned_numel = sharded_ ? layout.shard_numel() : layout.padded_numel();
  states.master =
      static_cast<float*>(made.master ? made.master.data() : owned_parameters(of, group));
  for (std::size_t i = 0; i < made.moments.size(); ++i) {
    states.moments[i] = floats_at(made.moments[i], 0);
  }
  return states;
}

std::vector<SegmentUpdate> OptimizerStates::next_update(std::size_t unit,
                                                        const Reducer::UnitGradients& gradients,
                                                        const std::vector<bool>& present,
                                                        const UpdateSettings& settings) {
  Unit& of = units_[unit];
  // Elements may share a pass where they share hyper-parameters and the number of updates so far.
  std::map<std::pair<int, std::int64_t>, int> known;
  std::vector<int> ids(of.steps.size(), kAbsent);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!present[i]) continue;
    ++of.steps[i];
    ids[i] = known.try_emplace({of.group_ids[i], of.steps[i]}, static_cast<int>(i)).first->second;
  }
  std::vector<SegmentUpdate> all;
  for (std::size_t group = 0; group < of.groups.size(); ++group) {
    if (!of.groups[group].trainable) continue;
    std::vector<int> group_ids;
    for (const std::size_t parameter : of.flat->layout().groups()[group].parameters) {
      group_ids.push_back(ids[parameter]);
    }
    const GradientGroup& gradient = gradients.groups[*gradients.group_of[group]];
    for (const Segment& segment : segments(of, group, group_ids)) {
      if (segment.hyper_parameters == kAbsent) continue;
      append_segment({of, group, gradient, settings}, segment, all);
    }
  }
  return all;
}

std::vector<Segment> OptimizerStates::segments(const Unit& unit, std::size_t group,
                                               const std::vector<int>& ids) const {
  const FlatLayout& layout = unit.flat->layout().groups()[group].layout;
  if (sharded_) return segments_of(layout, ids, unit.flat->rank());
  std::vector<Segment> all;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    for (const Segment& segment : segments_of(layout, ids, rank)) all.push_back(segment);
  }
  return all;
}

// One update for each piece of the segment's gradient; what lies between pieces is padding, which
// is zero and stays so.
void OptimizerStates::append_segment(const GroupUpdate& of, const Segment& segment,
                                     std::vector<SegmentUpdate>& all) const {
  const FlatGroup& flat = of.unit.flat->layout().groups()[of.group];
  const Group& made = of.unit.groups[of.group];
  const auto parameter = static_cast<std::size_t>(segment.hyper_parameters);
  const OptimizerOptions& options =
      of.settings.parameter_groups[static_cast<std::size_t>(of.unit.group_ids[parameter])];
  refuse_more_moments(options, made.moments.size());
  void* const parameters = owned_parameters(of.unit, of.group);
  const std::int64_t origin = sharded_ ? of.unit.flat->shard_begin(of.group) : 0;
  for (const GradientGroup::ReducedPiece& piece : of.gradient.reduced(segment.span)) {
    const std::int64_t at = segment.span.begin() - origin + piece.offset;
    UpdateSpan span{.gradient = piece.values.data,
                    .gradient_dtype = piece.values.dtype,
                    .count = piece.values.count};
    for (std::size_t i = 0; i < made.moments.size(); ++i) {
      span.moments[i] = floats_at(made.moments[i], at);
    }
    if (made.master) {
      span.master = floats_at(made.master, at);
      span.parameter = element_at(parameters, at, flat.dtype);
      span.parameter_dtype = flat.dtype;
    } else {
      span.master = static_cast<float*>(parameters) + at;
    }
    all.push_back({&options, span, {of.settings.gradient_factor, of.unit.steps[parameter]}});
  }
}

}  // namespace zeroshard
