// On which tier each unit's states lie, and the buffers they pass through between tiers. Planner
// and engine both call this, so that they cannot disagree.
//
// A unit's optimizer states (master and moments) and G lie on one tier as a whole. Units before
// `first_host_unit`, in forward order, have them on the device, the others on the host: the first
// units' new values are needed first, and the last units' gradients come first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/pool.h"
#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/tier/options.h"

namespace zeroshard {

// The start of the smallest suffix of units that holds at least `ratio` of all trainable elements
// that the rank owns: 0 (all units) for 1, the number of units (none) for 0.
std::size_t first_host_unit(const std::vector<std::int64_t>& owned_trainable_numel_by_unit,
                            double ratio);

// What passes between tiers goes in pieces of at most this size, so that the rings are small beside
// any states that are worth offloading.
inline constexpr std::int64_t kStagingPieceBytes = 64 << 20;
// What is made and not sent is written over and over in a piece of this size, which caches hold.
inline constexpr std::int64_t kUnsentPieceBytes = 1 << 20;
// One is written, one is sent, and one lets neither wait for the other.
inline constexpr int kStagingSlots = 3;

struct TierPlan {
  // Of this unit and those behind it, the optimizer states and G lie on the host. The number of
  // units: all stay on the device.
  std::size_t first_host_unit = 0;
  // Shards of units that are released. A resident unit's parameters are always on the device.
  Tier parameters = Tier::device;

  // Host memory through which new 16-bit values go up to parameters on the device, and, with one
  // rank, gradients come down that are added to G, are of another dtype than it, or find it
  // unpinned. (A gradient that is G is copied straight there, and an fp32 master goes up itself.)
  Ring staging = {};
  // Host memory for the 16-bit values that an update makes and nobody sends, with delayed updates:
  // a unit's new values go up from its masters, a step later, while gradients pass the ring.
  std::int64_t unsent_bytes = 0;
  // Device memory into which an update on the device writes the new 16-bit values of a shard that
  // lies on the host.
  Ring values_down = {};
  // With one rank, a host unit's gradients are torch's tensors until they have been copied down.
  // They count as gradients on the device, for as long as backward brings that unit's, and no more
  // than this much of them is counted at once: the largest host unit's. 0 where the local gradient
  // is kept.
  std::int64_t passing_gradient_bytes = 0;
  // Torch's own gradients of each unit: those that are held from its backward to the update, and
  // those that pass, of which a part is there at once.
  struct OwnGradients {
    std::int64_t held_bytes = 0;
    std::int64_t passing_bytes = 0;
  };
  std::vector<OwnGradients> gradients = {};
  // Host memory from which updates that begin before the norm is known can be taken back, and the
  // first unit that has a part of it: the last units' gradients come first. The number of units:
  // none has.
  std::size_t first_undo_unit = 0;
  std::int64_t undo_bytes = 0;

  Tier optimizer(std::size_t unit) const {
    return unit < first_host_unit ? Tier::device : Tier::host;
  }
  Tier shard(bool resident) const { return resident ? Tier::device : parameters; }
  // A unit whose parameters lie on the host, too, is updated where others may gather it.
  bool updates_early(std::size_t unit, bool resident) const {
    return unit >= first_undo_unit && optimizer(unit) == Tier::host &&
           shard(resident) == Tier::device;
  }
};

// In which form a rank has the masters of a flat group.
enum class MasterForm {
  parameter,  // the fp32 parameters themselves, where both lie on one tier
  halved,     // the 16 bits that bf16 parameters lack, where both lie on one tier
  whole,      // in fp32
};

// `halves`: masters may be in halves.
constexpr MasterForm master_form(DType dtype, Tier parameters, Tier states, bool halves) {
  if (parameters != states) return MasterForm::whole;
  if (dtype == DType::fp32) return MasterForm::parameter;
  return dtype == DType::bf16 && halves ? MasterForm::halved : MasterForm::whole;
}

// Per element, beside the parameter.
constexpr std::int64_t stored_bytes(MasterForm form) {
  switch (form) {
    case MasterForm::parameter: return 0;
    case MasterForm::halved: return 2;
    case MasterForm::whole: break;
  }
  return 4;
}

// Whether each rank adds its micro-steps up in a local gradient on the device. A host unit needs
// none where one rank has one micro-step to a step: its gradients are G.
constexpr bool host_unit_keeps_local(const Stage& stage, int world_size, std::int64_t micro_steps) {
  return stage.gradients_accumulating == Placement::partial && (world_size > 1 || micro_steps > 1);
}

// What gradients become on their way to the update.
struct GradientTypes {
  DType accumulation = DType::fp32;   // the local gradient's
  DType communication = DType::fp32;  // what travels
  DType reduced = DType::fp32;        // G's
  bool scaled = false;                // multiplied where there is one rank
};

// What gradients of a flat group take while they are as autograd has made them.
std::int64_t own_gradient_bytes(const FlatGroup& group);

// Whether gradients of a group on the device stay as autograd has made them until the update: with
// one rank and one micro-step to a step, where all roundings on the way would leave them unchanged.
// They are there from backward to the update only.
constexpr bool holds_gradients(DType dtype, const GradientTypes& types, int world_size,
                               std::int64_t micro_steps) {
  const auto keeps = [dtype](DType on_the_way) {
    return on_the_way == dtype || on_the_way == DType::fp32;
  };
  return world_size == 1 && micro_steps == 1 && !types.scaled && keeps(types.accumulation) &&
         keeps(types.communication) && types.reduced == dtype;
}

struct TierPlanOptions {
  Stage stage = kStages.front();
  OffloadOptions offload = {};
  // In place of the ratio; offload.optimizer does not matter then.
  std::optional<std::size_t> first_host_unit = {};
  std::int64_t micro_steps = 1;
  GradientTypes gradients = {};
  // Updates may begin before the norm is known, where there is memory to take them back: so many
  // bytes, or what it takes.
  bool speculates = false;
  std::optional<std::int64_t> undo_limit_bytes = {};
  bool delays = false;  // updates on the host end in the next step
  int moments = 0;      // per parameter
};

// What the record of an early update of a unit takes, and of one of its flat groups (0 where it has
// none).
std::int64_t undo_bytes(const UnitLayout& unit, const Stage& stage, int moments);
std::int64_t undo_bytes(const FlatGroup& group, const Stage& stage, int moments);

// `units` in forward order; `resident`: which of them are never released.
TierPlan plan_tiers(const std::vector<const UnitLayout*>& units, const std::vector<bool>& resident,
                    const TierPlanOptions& options);

// What is decided about memory once the model is known (setup/fit_memory.h).
struct FittedMemory {
  std::optional<std::size_t> first_host_unit = {};    // set where a budget decides
  std::int64_t host_state_bytes = 0;                  // the host tier's, rings aside
  std::optional<std::int64_t> undo_limit_bytes = {};  // what is left for early updates
};

}  // namespace zeroshard
