#include "zeroshard/engine/optimizer_states.h"

#include <algorithm>
#include <map>
#include <utility>

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

}  // namespace

OptimizerStates::OptimizerStates(const std::vector<FlatUnit*>& units,
                                 std::vector<std::vector<int>> group_ids, const Plan& plan,
                                 StateMemory& memory)
    : sharded_(plan.stage.optimizer_states == Placement::sharded), memory_(memory) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    Unit& unit = units_.emplace_back(Unit{.flat = units[i],
                                          .tier = plan.tiers.optimizer(i),
                                          .groups = std::vector<Group>(units[i]->groups()),
                                          .group_ids = std::move(group_ids[i]),
                                          .steps = {}});
    unit.steps.assign(units[i]->parameters().size(), 0);
    for (std::size_t group = 0; group < unit.groups.size(); ++group) {
      make_group(unit, group, plan);
    }
  }
}

void OptimizerStates::make_group(Unit& unit, std::size_t group, const Plan& plan) {
  const FlatGroup& flat = unit.flat->layout().groups()[group];
  Group& made = unit.groups[group];
  if (!flat.trainable) return;
  const std::int64_t owned = sharded_ ? flat.layout.shard_numel() : flat.layout.padded_numel();
  for (int i = 0; i < plan.moments; ++i) {
    made.moments.push_back(
        memory_.allocate(Category::moments, unit.tier, owned * bytes_of(DType::fp32)));
    tensor_over(made.moments.back().data(), owned, DType::fp32, device_of(unit.tier)).zero_();
  }
  const MasterForm form =
      master_form(flat.dtype, unit.flat->options().tier, unit.tier, plan.halves_masters);
  made.masters.emplace(form, unit.tier, parameters_of(unit, group), memory_);
}

void* OptimizerStates::owned_parameters(const Unit& unit, std::size_t group) const {
  return sharded_ ? unit.flat->shard(group) : unit.flat->full(group);
}

at::Tensor OptimizerStates::parameters_of(const Unit& unit, std::size_t group) const {
  const FlatGroup& flat = unit.flat->layout().groups()[group];
  const std::int64_t owned = sharded_ ? flat.layout.shard_numel() : flat.layout.padded_numel();
  return tensor_over(owned_parameters(unit, group), owned, flat.dtype, unit.flat->shard_device());
}

// `change` is given each trained group's masters, and the parameters that belong to them.
template <typename Change>
void OptimizerStates::change_masters(std::size_t unit, const Change& change) {
  Unit& of = units_[unit];
  for (std::size_t group = 0; group < of.groups.size(); ++group) {
    if (of.groups[group].masters) change(*of.groups[group].masters, parameters_of(of, group));
  }
}

void OptimizerStates::refresh_masters(std::size_t unit, Written written) {
  if (written == Written::nothing) return;
  change_masters(unit, [&](GroupMasters& masters, const at::Tensor& parameters) {
    written == Written::all ? masters.take_all(parameters) : masters.take_changed(parameters);
  });
}

// Of all groups, or, where there is no memory for it, of none.
void OptimizerStates::keep_parameters(std::size_t unit) {
  std::vector<GroupMasters*> kept;
  try {
    change_masters(unit, [&](GroupMasters& masters, const at::Tensor& parameters) {
      masters.keep_parameters(parameters);
      kept.push_back(&masters);
    });
  } catch (...) {
    for (GroupMasters* const masters : kept) masters->end_keeping();
    throw;
  }
}

void OptimizerStates::keep_updated(std::size_t unit) {
  change_masters(unit, [](GroupMasters& masters, const at::Tensor& parameters) {
    masters.keep_updated(parameters);
  });
}

void OptimizerStates::restore_parameters(std::size_t unit) {
  change_masters(unit, [](GroupMasters& masters, const at::Tensor& parameters) {
    masters.restore_parameters(parameters);
  });
}

void OptimizerStates::end_keeping(std::size_t unit) {
  change_masters(unit, [](GroupMasters& masters, const at::Tensor&) { masters.end_keeping(); });
}

void OptimizerStates::write_parameters(std::size_t unit) {
  change_masters(unit, [](GroupMasters& masters, const at::Tensor& parameters) {
    masters.write_parameters(parameters);
  });
}

at::Tensor OptimizerStates::masters(std::size_t unit, std::size_t group) const {
  return masters(unit, group, 0, states(unit, group).owned_numel);
}

at::Tensor OptimizerStates::masters(std::size_t unit, std::size_t group, std::int64_t begin,
                                    std::int64_t count) const {
  const Unit& of = units_[unit];
  return of.groups[group].masters->values(parameters_of(of, group), begin, count);
}

std::int64_t OptimizerStates::write_masters(std::size_t unit, std::size_t group, std::int64_t begin,
                                            const at::Tensor& values) {
  Unit& of = units_[unit];
  return of.groups[group].masters->write(parameters_of(of, group), begin, values);
}

bool OptimizerStates::halves_some() const {
  return std::ranges::any_of(units_, [](const Unit& unit) {
    return std::ranges::any_of(unit.groups, [](const Group& group) {
      return group.masters && group.masters->form() == MasterForm::halved;
    });
  });
}

std::vector<StateBuffer*> OptimizerStates::memory_of(Category category) {
  std::vector<StateBuffer*> all;
  for (Unit& unit : units_) {
    if (unit.tier != Tier::device) continue;
    for (Group& group : unit.groups) {
      if (category == Category::master && group.masters) all.push_back(&group.masters->memory());
      if (category != Category::moments) continue;
      for (StateBuffer& moment : group.moments) all.push_back(&moment);
    }
  }
  return all;
}

OptimizerStates::GroupStates OptimizerStates::states(std::size_t unit, std::size_t group) const {
  const Unit& of = units_[unit];
  const Group& made = of.groups[group];
  const FlatLayout& layout = of.flat->layout().groups()[group].layout;
  GroupStates states;
  states.device = device_of(of.tier);
  states.owned_numel = sharded_ ? layout.shard_numel() : layout.padded_numel();
  for (std::size_t i = 0; i < made.moments.size(); ++i) {
    states.moments[i] = floats_at(made.moments[i], 0);
  }
  return states;
}

std::vector<SegmentUpdate> OptimizerStates::next_update(std::size_t unit,
                                                        const Reducer::UnitGradients& gradients,
                                                        const std::vector<bool>& present,
                                                        const UpdateSettings& settings) {
  std::vector<SegmentUpdate> all;
  for (PlacedUpdate& placed : plan_update(unit, gradients, present, settings)) {
    all.push_back(std::move(placed.update));
  }
  count_update(unit, present);
  return all;
}

void OptimizerStates::count_update(std::size_t unit, const std::vector<bool>& present) {
  Unit& of = units_[unit];
  for (std::size_t i = 0; i < of.steps.size(); ++i) of.steps[i] += present[i] ? 1 : 0;
}

std::vector<OptimizerStates::PlacedUpdate> OptimizerStates::plan_update(
    std::size_t unit, const Reducer::UnitGradients& gradients, const std::vector<bool>& present,
    const UpdateSettings& settings) const {
  const Unit& of = units_[unit];
  // Elements may share a pass where they share hyper-parameters and the number of updates so far.
  std::map<std::pair<int, std::int64_t>, int> known;
  std::vector<int> ids(of.steps.size(), kAbsent);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!present[i]) continue;
    ids[i] = known.try_emplace({of.group_ids[i], of.steps[i]}, static_cast<int>(i)).first->second;
  }
  std::vector<PlacedUpdate> all;
  for (std::size_t group = 0; group < of.groups.size(); ++group) {
    if (!of.groups[group].masters) continue;
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
                                     std::vector<PlacedUpdate>& all) const {
  const Group& made = of.unit.groups[of.group];
  const auto parameter = static_cast<std::size_t>(segment.hyper_parameters);
  const OptimizerOptions& options =
      of.settings.parameter_groups[static_cast<std::size_t>(of.unit.group_ids[parameter])];
  refuse_more_moments(options, made.moments.size());
  const at::Tensor parameters = parameters_of(of.unit, of.group);
  const std::int64_t origin = sharded_ ? of.unit.flat->shard_begin(of.group) : 0;
  for (const GradientGroup::ReducedPiece& piece : of.gradient.reduced(segment.span)) {
    const std::int64_t at = segment.span.begin() - origin + piece.offset;
    UpdateSpan span{.gradient = piece.values.data,
                    .gradient_dtype = piece.values.dtype,
                    .count = piece.values.count};
    for (std::size_t i = 0; i < made.moments.size(); ++i) {
      span.moments[i] = floats_at(made.moments[i], at);
    }
    made.masters->point(span, parameters, at);
    const StepScalars scalars{of.settings.gradient_factor, of.unit.steps[parameter] + 1};
    all.push_back({{&options, span, scalars}, of.group, at});
  }
}

}  // namespace zeroshard
