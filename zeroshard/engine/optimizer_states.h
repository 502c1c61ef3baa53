// Masters, moments and step counts of what the rank owns, and the update of a unit from its G.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "zeroshard/engine/flat_unit.h"
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
};

// What somebody has done to a unit's full parameters. Of `some`, masters that still round to their
// parameter keep the digits which that has not.
enum class Written { nothing, some, all };

class OptimizerStates {
 public:
  // `group_ids`: for each unit, each parameter's parameter group.
  OptimizerStates(const std::vector<FlatUnit*>& units, std::vector<std::vector<int>> group_ids,
                  int moments, const Stage& stage, const TierPlan& tiers, StateMemory& memory);

  // The update of what the rank owns of the unit, which counts as done from here on. `present`, by
  // parameter: whether any rank had a gradient; those without are left alone, as PyTorch does. It
  // points into `settings`.
  std::vector<SegmentUpdate> next_update(std::size_t unit, const Reducer::UnitGradients& gradients,
                                         const std::vector<bool>& present,
                                         const UpdateSettings& settings);

  // Masters take the parameters' values again, after somebody has written those. The unit's full
  // buffer is there.
  void refresh_masters(std::size_t unit, Written written);

  // Parameters take the masters' values, after somebody has written those.
  void write_parameters(std::size_t unit);

  // One group's states, for checkpoints and tests: fp32 and owned_numel long. The master of an fp32
  // group is the parameter itself.
  struct GroupStates {
    float* master = nullptr;
    std::array<float*, 2> moments = {};
    std::int64_t owned_numel = 0;
    Device device = kCpu;  // where all of them lie
  };
  GroupStates states(std::size_t unit, std::size_t group) const;
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
    bool trainable = false;
    StateBuffer master = {};
    std::vector<StateBuffer> moments = {};
  };
  struct Unit {
    FlatUnit* flat = nullptr;
    Tier tier = Tier::device;
    std::vector<Group> groups = {};
    std::vector<int> group_ids = {};       // by parameter
    std::vector<std::int64_t> steps = {};  // by parameter: updates it has had
  };

  void make_group(Unit& unit, std::size_t group, int moments);
  void* owned_parameters(const Unit& unit, std::size_t group) const;
  at::Tensor parameters_of(const Unit& unit, std::size_t group) const;
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
                      std::vector<SegmentUpdate>& all) const;

  const bool sharded_;
  StateMemory& memory_;
  std::vector<Unit> units_;
};

}  // namespace zeroshard
