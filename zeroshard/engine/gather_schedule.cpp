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

GatherSchedule::GatherSchedule(std::vector<GatherUnit> units, std::vector<bool> resident,
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
  plan.visits = gathered_visits(plan.planned, resident_);
  plan.ends = prefetch_ends(units_, plan.visits, limits_, resident_numel_);
}

GatherSchedule::Actions GatherSchedule::reach(PhaseKind phase, std::size_t unit) {
  Actions actions;
  if (open_ && phase != phase_) append_finish(actions);
  if (!open_) begin(phase);
  const Phase& visits = of(phase_).visits;
  if (!resident_[unit]) {
    auto found =
        std::find(visits.begin() + static_cast<std::ptrdiff_t>(visited_), visits.end(), unit);
    const bool comes_round = found == visits.end() && !visits.empty() && visits.front() == unit &&
                             phase_ != PhaseKind::backward;
    if (comes_round) {
      come_round(actions);
      found = visits.begin();
    }
    if (found != visits.end()) {
      advance_to(static_cast<std::size_t>(found - visits.begin()), actions);
    } else {
      actions.gathers.push_back({unit, false});
    }
  }
  passing_.push_back(unit);
  return actions;
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

// Gathers visits up to `end`; those before `needed_from` are for the other ranks' sake.
void GatherSchedule::issue(std::size_t end, std::size_t needed_from, Actions& actions) {
  const Phase& visits = of(phase_).visits;
  for (; issued_ < end; ++issued_) {
    actions.gathers.push_back({visits[issued_], issued_ < needed_from});
  }
}

void GatherSchedule::advance_to(std::size_t visit, Actions& actions) {
  const Phase& visits = of(phase_).visits;
  for (std::size_t skipped = visited_; skipped < std::min(visit, issued_); ++skipped) {
    if (visits[skipped] != visits[visit]) actions.unused.push_back(visits[skipped]);
  }
  issue(std::max(visit + 1, of(phase_).ends[visit]), visit, actions);
  visited_ = visit + 1;
}

void GatherSchedule::append_finish(Actions& actions) {
  const Phase& visits = of(phase_).visits;
  for (std::size_t ahead = visited_; ahead < issued_; ++ahead) {
    actions.unused.push_back(visits[ahead]);
  }
  issue(visits.size(), visits.size(), actions);
  if (!abandoned_) of(phase_).seen = std::move(passing_);
  passing_.clear();
  open_ = abandoned_ = false;
}

}  // namespace zeroshard
