// One backward, of whoever called it: which units are held for it, which gradients have come, and
// when each unit is over, so that it is released and its gradients are reduced.
//
//   pass.begin(reduces);
//   pass.reach(use);           // a gradient has arrived at an output of a unit
//   pass.capture(unit, parameter, gradient);
//   pass.end_use(use);         // the gradients of the unit's inputs are there
//   pass.close();              // or drop(), after an exception
//
// A unit is over when all its uses in this backward's graph are. Every node of a use was made after
// the boundary at its inputs, and autograd runs later nodes first: when the boundary runs, all of
// the use has run.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/gatherer.h"
#include "zeroshard/engine/reducer.h"
#include "zeroshard/engine/unit_times.h"
#include "zeroshard/engine/unit_uses.h"
#include "zeroshard/layout/placement.h"

namespace zeroshard {

class BackwardPass {
 public:
  // Of the core, which keeps them while the pass lives.
  struct Parts {
    const std::vector<std::unique_ptr<FlatUnit>>& units;
    std::optional<std::size_t> root;
    Placement parameters;
    Gatherer& gatherer;
    Reducer& reducer;
    UnitUses& uses;
    UnitTimes& times;
  };
  explicit BackwardPass(const Parts& parts);

  bool under_way() const { return under_way_; }
  // `reduces`: whether this backward's gradients, and those kept since, are reduced.
  void begin(bool reduces, bool ends_step);
  // Called by every hook, first of all: learns which uses belong to this backward.
  void enter_task();
  // Throws StateError where the use's forward read parameters that have changed since.
  void reach(const UnitUses::Id& use);
  void end_use(const UnitUses::Id& use);
  void capture(std::size_t unit, std::size_t parameter, const at::Tensor& gradient);
  // Autograd is done: what is still held is let go, what is incomplete brings zeros.
  void close();
  // After an exception: what this backward has brought is forgotten.
  void drop();
  // The backward of a rank that has nothing (more) to differentiate: its collectives alone.
  void pass_over(bool reduces);

  // A forward inside the backward computes a unit again. What it gathers stays until it ends.
  void hold_for_recompute(std::size_t unit);
  void end_recompute(std::size_t held_before);
  std::size_t recompute_holds() const { return recompute_held_.size(); }

 private:
  void refuse_outdated(const UnitUses::Id& use) const;
  void skip(std::size_t unit);
  void finish(std::size_t unit);
  void finish_by_gradients(std::size_t unit);
  bool completes_by_gradients() const { return of_.parameters != Placement::sharded; }
  const std::string& name_of(std::size_t unit) const { return of_.units[unit]->name(); }

  const Parts of_;
  bool under_way_ = false;
  bool task_entered_ = false;
  bool autograd_is_over_ = true;
  std::vector<bool> held_;  // by unit
  std::vector<std::size_t> recompute_held_;
};

}  // namespace zeroshard
