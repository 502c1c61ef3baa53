#include "zeroshard/layout/prefetch.h"

#include "zeroshard/layout/checked.h"

namespace zeroshard {
namespace {

void check_limits(const GatherLimits& limits) {
  ZS_CHECK_GE(limits.persistence_numel, 0, "persistence threshold");
  ZS_CHECK_GE(limits.model_persistence_numel, 0, "model persistence threshold");
  ZS_CHECK_GE(limits.prefetch_numel, 0, "prefetch limit");
  ZS_CHECK_GE(limits.max_live_numel, 0, "limit of live parameters");
}

void check_visits(const std::vector<UnitSize>& units, const Phase& visits) {
  for (const std::size_t unit : visits) {
    ZS_CHECK_LT(unit, units.size(), "a phase visits a unit that does not exist");
    ZS_CHECK_GE(units[unit].numel, 0, "unit {} has a negative size", unit);
  }
}

// The units live at one moment.
class LiveUnits {
 public:
  LiveUnits(const std::vector<UnitSize>& units, std::int64_t persistent_numel)
      : units_(units), live_(units.size(), false), numel_(persistent_numel) {}

  bool has(std::size_t unit) const { return live_[unit]; }
  std::int64_t numel() const { return numel_; }

  void gather(std::size_t unit) {
    live_[unit] = true;
    numel_ = checked_add(numel_, units_[unit].numel);
  }

  void release(std::size_t unit) {
    live_[unit] = false;
    numel_ -= units_[unit].numel;
  }

 private:
  const std::vector<UnitSize>& units_;
  std::vector<bool> live_;
  std::int64_t numel_;
};

}  // namespace

std::vector<bool> persistent_units(const std::vector<UnitSize>& units, const GatherLimits& limits) {
  check_limits(limits);
  std::vector<bool> persistent;
  persistent.reserve(units.size());
  std::int64_t left = limits.model_persistence_numel;
  for (const UnitSize& unit : units) {
    ZS_CHECK_GE(unit.numel, 0, "unit {} has a negative size", persistent.size());
    const bool small = unit.numel <= limits.persistence_numel && unit.numel <= left;
    if (small && !unit.never_released) left -= unit.numel;
    persistent.push_back(small || unit.never_released);
  }
  return persistent;
}

std::vector<Phase> forward_and_backward(std::size_t unit_count) {
  Phase forward;
  for (std::size_t unit = 0; unit < unit_count; ++unit) forward.push_back(unit);
  return {forward, Phase(forward.rbegin(), forward.rend())};
}

Phase gathered_visits(const Phase& phase, const std::vector<bool>& persistent) {
  Phase visits;
  for (const std::size_t unit : phase) {
    ZS_CHECK_LT(unit, persistent.size(), "a phase visits a unit that does not exist");
    if (!persistent[unit]) visits.push_back(unit);
  }
  return visits;
}

std::vector<std::size_t> prefetch_ends(const std::vector<UnitSize>& units, const Phase& visits,
                                       const GatherLimits& limits, std::int64_t persistent_numel) {
  check_limits(limits);
  check_visits(units, visits);
  ZS_CHECK_GE(persistent_numel, 0, "persistent elements");
  LiveUnits live(units, persistent_numel);
  std::vector<std::size_t> ends;
  std::size_t end = 0;
  for (std::size_t visit = 0; visit < visits.size(); ++visit) {
    if (end == visit) live.gather(visits[end++]);
    const std::int64_t not_ahead = persistent_numel + units[visits[visit]].numel;
    for (; end < visits.size() && !live.has(visits[end]); ++end) {
      const bool enough = live.numel() - not_ahead >= limits.prefetch_numel;
      const std::int64_t room = limits.max_live_numel - live.numel();
      if (enough || units[visits[end]].numel > room) break;
      live.gather(visits[end]);
    }
    ends.push_back(end);
    live.release(visits[visit]);
  }
  return ends;
}

}  // namespace zeroshard
