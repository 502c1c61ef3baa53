#include "zeroshard/layout/tier_plan.h"

#include <algorithm>
#include <cmath>

#include "zeroshard/base/check.h"
#include "zeroshard/layout/alignment.h"
#include "zeroshard/layout/undo_record.h"

namespace zeroshard {
namespace {

std::int64_t owned_numel(const FlatGroup& group, const Stage& stage) {
  return stage.optimizer_states == Placement::sharded ? group.layout.shard_numel()
                                                      : group.layout.padded_numel();
}

// Sums up the bytes that `bytes_of_group` gives for a unit's trainable groups.
template <typename BytesOfGroup>
std::int64_t trainable_bytes(const UnitLayout& unit, const BytesOfGroup& bytes_of_group) {
  std::int64_t sum = 0;
  for (const FlatGroup& group : unit.groups()) {
    if (group.trainable) sum = checked_add(sum, bytes_of_group(group));
  }
  return sum;
}

// The 16-bit values that an update makes of what the rank owns.
std::int64_t new_value_bytes(const UnitLayout& unit, const Stage& stage) {
  return trainable_bytes(unit, [&](const FlatGroup& group) {
    return group.dtype == DType::fp32 ? 0 : buffer_bytes(owned_numel(group, stage), group.dtype);
  });
}

std::int64_t held_gradient_bytes(const UnitLayout& unit, const TierPlanOptions& options) {
  return trainable_bytes(unit, [&](const FlatGroup& group) {
    const bool holds =
        holds_gradients(group.dtype, options.gradients, unit.world_size(), options.micro_steps);
    return holds ? own_gradient_bytes(group) : 0;
  });
}

// One arena holds all that is on the host.
bool pins_gradients(const OffloadOptions& offload) {
  return offload.pin_optimizer_memory ||
         (offload.parameters != Tier::device && offload.pin_parameter_memory);
}

// Gradients that are not copied straight into G.
std::int64_t changed_gradient_bytes(const UnitLayout& unit, const TierPlanOptions& options) {
  const bool all = options.micro_steps > 1 || !pins_gradients(options.offload);
  return trainable_bytes(unit, [&](const FlatGroup& group) {
    return all || group.dtype != options.gradients.reduced ? own_gradient_bytes(group) : 0;
  });
}

// One rank's, on their way to the host; local gradients go down as they are, where they may.
std::int64_t gradients_through_ring(const UnitLayout& unit, const TierPlanOptions& options) {
  if (!host_unit_keeps_local(options.stage, 1, options.micro_steps)) {
    return changed_gradient_bytes(unit, options);
  }
  if (pins_gradients(options.offload)) return 0;
  return trainable_bytes(unit, [&](const FlatGroup& group) {
    return buffer_bytes(group.layout.padded_numel(), options.gradients.reduced);
  });
}

Ring staging_ring(std::int64_t largest_bytes) {
  if (largest_bytes == 0) return {};
  return size_staging_ring(kStagingSlots, std::min(largest_bytes, kStagingPieceBytes));
}

std::size_t first_host_unit_of(const std::vector<const UnitLayout*>& units,
                               const TierPlanOptions& options) {
  if (options.first_host_unit) return std::min(*options.first_host_unit, units.size());
  if (options.offload.optimizer == Tier::device) return units.size();
  std::vector<std::int64_t> owned;
  for (const UnitLayout* unit : units) {
    const bool sharded = options.stage.optimizer_states == Placement::sharded;
    const LayoutTotals& totals = unit->totals();
    owned.push_back(sharded ? totals.trainable_shard_numel : totals.trainable_padded_numel);
  }
  return first_host_unit(owned, options.offload.optimizer_ratio);
}

// A rank's G must be there when its reduction ends, and replicated ones are gathered after it.
bool can_speculate(const std::vector<const UnitLayout*>& units, const TierPlanOptions& options) {
  const bool alone = units.empty() || units.front()->world_size() == 1;
  return options.speculates && (alone || options.stage.gradients_reduced != Placement::replicated);
}

void plan_undo(TierPlan& plan, const std::vector<const UnitLayout*>& units,
               const std::vector<bool>& resident, const TierPlanOptions& options) {
  plan.first_undo_unit = units.size();
  if (!can_speculate(units, options)) return;
  for (std::size_t i = units.size(); i > plan.first_host_unit;) {
    --i;
    const bool early = plan.shard(resident[i]) == Tier::device;
    const std::int64_t bytes =
        early ? undo_bytes(*units[i], options.stage, options.moments) : std::int64_t{0};
    if (options.undo_limit_bytes && plan.undo_bytes + bytes > *options.undo_limit_bytes) return;
    plan.undo_bytes = checked_add(plan.undo_bytes, bytes);
    plan.first_undo_unit = i;
  }
}

}  // namespace

std::int64_t own_gradient_bytes(const FlatGroup& group) {
  return buffer_bytes(group.layout.padded_numel(), group.dtype);
}

std::int64_t undo_bytes(const FlatGroup& group, const Stage& stage, int moments) {
  const std::int64_t numel = owned_numel(group, stage);
  if (!group.trainable || !can_be_undone(numel)) return 0;
  return checked_round_up(undo_layout(numel, 1 + moments).bytes, kBufferAlignmentBytes);
}

std::int64_t undo_bytes(const UnitLayout& unit, const Stage& stage, int moments) {
  std::int64_t sum = 0;
  for (const FlatGroup& group : unit.groups()) {
    sum = checked_add(sum, undo_bytes(group, stage, moments));
  }
  return sum;
}

std::size_t first_host_unit(const std::vector<std::int64_t>& owned_trainable_numel_by_unit,
                            double ratio) {
  ZS_CHECK_GE(ratio, 0.0);
  ZS_CHECK_LE(ratio, 1.0);
  if (ratio == 1.0) return 0;  // units without trainable elements too
  const auto& numels = owned_trainable_numel_by_unit;
  std::int64_t total = 0;
  for (const std::int64_t numel : numels) total = checked_add(total, numel);
  // Whole elements, so that 0.3 of ten equal units are three, however 0.3 is rounded.
  const std::int64_t wanted = std::llround(static_cast<long double>(total) * ratio);
  std::size_t first = numels.size();
  for (std::int64_t on_host = 0; first > 0 && on_host < wanted;) on_host += numels[--first];
  return first;
}

TierPlan plan_tiers(const std::vector<const UnitLayout*>& units, const std::vector<bool>& resident,
                    const TierPlanOptions& options) {
  ZS_CHECK_EQ(units.size(), resident.size(), "each unit is resident or is not");
  const Stage& stage = options.stage;
  const bool sharded = stage.parameters == Placement::sharded;
  TierPlan plan{.first_host_unit = first_host_unit_of(units, options),
                .parameters = sharded && options.offload.parameters != Tier::device ? Tier::host
                                                                                    : Tier::device};
  plan.gradients.resize(units.size());
  std::int64_t largest_staged = 0, largest_down = 0, largest_unsent = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Tier states = plan.optimizer(i), parameters = plan.shard(resident[i]);
    const std::int64_t values = new_value_bytes(*units[i], stage);
    if (states == Tier::device) {
      plan.gradients[i].held_bytes = held_gradient_bytes(*units[i], options);
      if (parameters == Tier::host) largest_down = std::max(largest_down, values);
      continue;
    }
    if (parameters == Tier::device) {
      largest_staged = std::max(largest_staged, values);
      largest_unsent = std::max(largest_unsent, values);
    }
    if (units[i]->world_size() > 1) continue;
    largest_staged = std::max(largest_staged, gradients_through_ring(*units[i], options));
    if (host_unit_keeps_local(stage, 1, options.micro_steps)) continue;
    const std::int64_t passing = trainable_bytes(*units[i], own_gradient_bytes);
    plan.gradients[i].passing_bytes = passing;
    plan.passing_gradient_bytes = std::max(plan.passing_gradient_bytes, passing);
  }
  plan_undo(plan, units, resident, options);
  plan.staging = staging_ring(largest_staged);
  plan.values_down = staging_ring(largest_down);
  if (options.delays) plan.unsent_bytes = std::min(largest_unsent, kUnsentPieceBytes);
  return plan;
}

}  // namespace zeroshard
