// Which gathers to issue when a unit is reached. A gather is a collective, so every rank must issue
// the same ones in the same order, whichever units it happens to use: the order comes from a plan.
//
// Reaching a unit issues all planned before it (those that were skipped are dropped again) and some
// ahead. What a phase leaves over is issued when it ends. A use that the plan does not know issues
// a gather of its own, and must happen on all ranks. Skipped units are told in the order of the
// plan, those without a gather too: other ranks reduce their gradients there.
// Pure: no memory, no messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/layout/prefetch.h"

namespace zeroshard {

enum class PhaseKind { train_forward, backward, eval };

class GatherSchedule {
 public:
  // Before the first pass, forward is expected in the order of the list and backward in reverse.
  // Units that are `resident` are never gathered.
  GatherSchedule(std::vector<UnitSize> units, std::vector<bool> resident, GatherLimits limits);

  // In this order. A unit that is skipped is let go as soon as it has arrived.
  struct Action {
    std::size_t unit = 0;
    bool gather = true;  // else it was gathered ahead, or never is
    bool skipped = false;
    bool operator==(const Action&) const = default;
  };
  using Actions = std::vector<Action>;

  // The unit is about to be used. Ends the phase before where this is another one; a unit that
  // comes round again ends the pass.
  Actions reach(PhaseKind phase, std::size_t unit);
  // The rest of the phase under way.
  Actions finish();
  bool is_in(PhaseKind phase) const { return open_ && phase_ == phase; }
  // A phase of which this rank uses nothing.
  Actions pass_over(PhaseKind phase);

  // What the last complete pass of a phase looked like; empty before the first.
  const Phase& observed(PhaseKind phase) const { return of(phase).seen; }
  const Phase& planned(PhaseKind phase) const { return of(phase).planned; }
  // A pass that ended in an exception says nothing about the order.
  void abandon_pass();
  // The plan with the order that rank 0 has seen. It loses no unit.
  Phase merged(PhaseKind phase, const Phase& seen) const;
  // From the next pass on. Between phases.
  void plan(PhaseKind phase, const Phase& order);

 private:
  struct Plan {
    Phase planned = {};                  // all visits
    std::vector<std::size_t> ends = {};  // by visit: before where gathers ahead of it end
    Phase seen = {};
  };

  Plan& of(PhaseKind phase) { return plans_[static_cast<std::size_t>(phase)]; }
  const Plan& of(PhaseKind phase) const { return plans_[static_cast<std::size_t>(phase)]; }
  void begin(PhaseKind phase);
  void skip_to(std::size_t visit, Actions& actions);
  void gather_to(std::size_t end, Actions& actions);
  bool comes_round(std::size_t unit) const;
  void append_finish(Actions& actions);
  void come_round(Actions& actions);

  const std::vector<UnitSize> units_;
  const std::vector<bool> resident_;
  const GatherLimits limits_;
  std::int64_t resident_numel_ = 0;
  std::array<Plan, 3> plans_;

  bool open_ = false;
  bool abandoned_ = false;
  PhaseKind phase_ = PhaseKind::train_forward;
  std::size_t visited_ = 0;  // planned visits that are over, used or skipped
  std::size_t issued_ = 0;   // planned visits whose gather, if any, was issued
  Phase passing_ = {};       // what this pass has reached so far
};

}  // namespace zeroshard
