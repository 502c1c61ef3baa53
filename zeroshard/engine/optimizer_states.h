// Masters, moments and step counts of what the rank owns, and the update of a unit from its G.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/group_masters.h"
#include "zeroshard/engine/reducer.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/segment.h"
#include "zeroshard/layout/tier_plan.h"
#include "zeroshard/optim/options.h"
#include "zeroshard/optim/update.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

// What one update is done with: a snapshot, so that nothing changes while units are updated.
struct UpdateSettings {
  std::vector<OptimizerOptions> parameter_groups;  // live learning rates included
  float gradient_factor = 1.0F;                    // unscaling and clipping

  bool operator==(const UpdateSettings&) const = default;
};

// What somebody has done to a unit's full parameters. Of `some`, masters that still round to their
// parameter keep the digits which that has not.
enum class Written { nothing, some, all };

class OptimizerStates {
 public:
  struct Plan {
    int moments = 0;  // per parameter
    Stage stage;
    TierPlan tiers = {};
    bool halves_masters = true;  // where they can be
  };
  // `group_ids`: for each unit, each parameter's parameter group.
  OptimizerStates(const std::vector<FlatUnit*>& units, std::vector<std::vector<int>> group_ids,
                  const Plan& plan, StateMemory& memory);

  // The update of what the rank owns of the unit, which counts as done from here on. `present`, by
  // parameter: whether any rank had a gradient; those without are left alone, as PyTorch does. It
  // points into `settings`.
  std::vector<SegmentUpdate> next_update(std::size_t unit, const Reducer::UnitGradients& gradients,
                                         const std::vector<bool>& present,
                                         const UpdateSettings& settings);
  // The same in two calls: what the update would be, and that it is done.
  struct PlacedUpdate {
    SegmentUpdate update;
    std::size_t group = 0;   // flat group
    std::int64_t begin = 0;  // of what the rank owns of it
  };
  std::vector<PlacedUpdate> plan_update(std::size_t unit, const Reducer::UnitGradients& gradients,
                                        const std::vector<bool>& present,
                                        const UpdateSettings& settings) const;
  void count_update(std::size_t unit, const std::vector<bool>& present);

  // Masters take the parameters' values again, after somebody has written those.
  void refresh_masters(std::size_t unit, Written written);
  // Somebody may write parameters until end_keeping(): what group_masters.h says of it.
  void keep_parameters(std::size_t unit);
  void restore_parameters(std::size_t unit);
  void keep_updated(std::size_t unit);
  void end_keeping(std::size_t unit);

  // Parameters take the masters' values, after somebody has written those.
  void write_parameters(std::size_t unit);

  // One group's states, for checkpoints and tests: owned_numel elements, in fp32.
  struct GroupStates {
    std::array<float*, 2> moments = {};
    std::int64_t owned_numel = 0;
    Device device = kCpu;  // where all of them lie
  };
  GroupStates states(std::size_t unit, std::size_t group) const;
  // The masters of a trained group, of all that the rank owns or of a part of it. The tensor is the
  // memory itself, or a copy where masters are in halves: who writes calls write_masters().
  at::Tensor masters(std::size_t unit, std::size_t group) const;
  at::Tensor masters(std::size_t unit, std::size_t group, std::int64_t begin,
                     std::int64_t count) const;
  // Masters from the rank's element `begin` on become `values`. Those of bf16 parameters are
  // settled; returns how many had to move for that. Parameters follow by write_parameters().
  std::int64_t write_masters(std::size_t unit, std::size_t group, std::int64_t begin,
                             const at::Tensor& values);
  bool halves_some() const;
  // The memory of all masters, or of all moments, that belong on the device: for moves between
  // tiers.
  std::vector<StateBuffer*> memory_of(Category category);
  std::int64_t steps(std::size_t unit, std::size_t parameter) const {
    return units_[unit].steps[parameter];
  }
  void set_steps(std::size_t unit, std::size_t parameter, std::int64_t steps) {
    units_[unit].steps[parameter] = steps;
  }
  int group_id(std::size_t unit, std::size_t parameter) const {
    return units_[unit].group_ids[parameter];
  }

 private:
  struct Group {
    std::optional<GroupMasters> masters = {};  // of one that is trained
    std::vector<StateBuffer> moments = {};
  };
  struct Unit {
    FlatUnit* flat = nullptr;
    Tier tier = Tier::device;
    std::vector<Group> groups = {};
    std::vector<int> group_ids = {};       // by parameter
    std::vector<std::int64_t> steps = {};  // by parameter: updates it has had
  };

  void make_group(Unit& unit, std::size_t group, const Plan& plan);
  void* owned_parameters(const Unit& unit, std::size_t group) const;
  at::Tensor parameters_of(const Unit& unit, std::size_t group) const;
  template <typename Change>
  void change_masters(std::size_t unit, const Change& change);
  Device device_of(Tier tier) const { return tier == Tier::device ? memory_.device() : kCpu; }
  std::vector<Segment> segments(const Unit& unit, std::size_t group,
                                const std::vector<int>& ids) const;
  struct GroupUpdate {
    const Unit& unit;
    std::size_t group;
    const GradientGroup& gradient;
    const UpdateSettings& settings;
  };
  void append_segment(const GroupUpdate& of, const Segment& segment,
                      std::vector<PlacedUpdate>& all) const;

  const bool sharded_;
  StateMemory& memory_;
  std::vector<Unit> units_;
};

}  // namespace zeroshard
