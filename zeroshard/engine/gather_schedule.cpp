#include "zeroshard/engine/gather_schedule.h"

#include <algorithm>
#include <utility>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

bool has(const Phase& order, std::size_t unit) {
  return std::ranges::find(order, unit) != order.end();
}

}  // namespace

// Units that were skipped stay where they were, after the unit they followed: another rank may have
// used them, or this one may the next time.
Phase GatherSchedule::merged(PhaseKind phase, const Phase& seen) const {
  Phase order = seen;
  auto at = order.begin();
  for (const std::size_t unit : of(phase).planned) {
    if (!has(seen, unit)) {
      at = std::next(order.insert(at, unit));
    } else if (const auto found = std::find(at, order.end(), unit); found != order.end()) {
      at = std::next(found);
    }
  }
  return order;
}

GatherSchedule::GatherSchedule(std::vector<UnitSize> units, std::vector<bool> resident,
                               GatherLimits limits)
    : units_(std::move(units)), resident_(std::move(resident)), limits_(limits) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (resident_[i]) resident_numel_ += units_[i].numel;
  }
  const std::vector<Phase> both = forward_and_backward(units_.size());
  plan(PhaseKind::train_forward, both[0]);
  plan(PhaseKind::eval, both[0]);
  plan(PhaseKind::backward, both[1]);
}

void GatherSchedule::plan(PhaseKind phase, const Phase& order) {
  ZS_CHECK(!open_, "a plan changes between phases");
  Plan& plan = of(phase);
  plan.planned = order;
  const Phase visits = gathered_visits(order, resident_);
  const std::vector<std::size_t> ends = prefetch_ends(units_, visits, limits_, resident_numel_);
  std::vector<std::size_t> planned_at;  // of each visit that needs a gather
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!resident_[order[i]]) planned_at.push_back(i);
  }
  plan.ends.assign(order.size(), 0);
  for (std::size_t i = 0; i < visits.size(); ++i) {
    plan.ends[planned_at[i]] = planned_at[ends[i] - 1] + 1;
  }
}

GatherSchedule::Actions GatherSchedule::reach(PhaseKind phase, std::size_t unit) {
  Actions actions;
  if (open_ && phase != phase_) append_finish(actions);
  if (!open_) begin(phase);
  if (comes_round(unit)) come_round(actions);
  const Phase& planned = of(phase_).planned;
  const auto found =
      std::find(planned.begin() + static_cast<std::ptrdiff_t>(visited_), planned.end(), unit);
  if (found != planned.end()) {
    const auto visit = static_cast<std::size_t>(found - planned.begin());
    skip_to(visit, actions);
    gather_to(std::max(visit + 1, of(phase_).ends[visit]), actions);
    visited_ = visit + 1;
  } else if (!resident_[unit]) {
    actions.push_back({.unit = unit});
  }
  passing_.push_back(unit);
  return actions;
}

// The first unit that is gathered, once more, and the plan does not have it ahead.
bool GatherSchedule::comes_round(std::size_t unit) const {
  const Phase& planned = of(phase_).planned;
  const auto is_gathered = [&](std::size_t each) { return !resident_[each]; };
  const auto first = std::ranges::find_if(planned, is_gathered);
  if (phase_ == PhaseKind::backward || first == planned.end() || *first != unit) return false;
  return std::find(planned.begin() + static_cast<std::ptrdiff_t>(visited_), planned.end(), unit) ==
         planned.end();
}

GatherSchedule::Actions GatherSchedule::finish() {
  Actions actions;
  if (open_) append_finish(actions);
  return actions;
}

GatherSchedule::Actions GatherSchedule::pass_over(PhaseKind phase) {
  Actions actions = finish();
  begin(phase);
  abandoned_ = true;
  append_finish(actions);
  return actions;
}

void GatherSchedule::begin(PhaseKind phase) {
  open_ = true;
  phase_ = phase;
  visited_ = issued_ = 0;
  passing_.clear();
}

// Several passes of one training phase (two forwards, then one backward) are learned as one order:
// so is a first unit that is used again at the end. Evaluation goes round any number of times.
void GatherSchedule::come_round(Actions& actions) {
  Phase passed = phase_ == PhaseKind::train_forward && !abandoned_ ? passing_ : Phase{};
  append_finish(actions);
  begin(phase_);
  passing_ = std::move(passed);
}

void GatherSchedule::abandon_pass() {
  if (open_) abandoned_ = true;
}

void GatherSchedule::skip_to(std::size_t visit, Actions& actions) {
  const Phase& planned = of(phase_).planned;
  for (; visited_ < visit; ++visited_) {
    const bool gather = visited_ >= issued_ && !resident_[planned[visited_]];
    actions.push_back({.unit = planned[visited_], .gather = gather, .skipped = true});
  }
  issued_ = std::max(issued_, visit);
}

void GatherSchedule::gather_to(std::size_t end, Actions& actions) {
  const Phase& planned = of(phase_).planned;
  for (; issued_ < end; ++issued_) {
    if (!resident_[planned[issued_]]) actions.push_back({.unit = planned[issued_]});
  }
}

void GatherSchedule::append_finish(Actions& actions) {
  skip_to(of(phase_).planned.size(), actions);
  if (!abandoned_) of(phase_).seen = std::move(passing_);
  passing_.clear();
  open_ = abandoned_ = false;
}

}  // namespace zeroshard
