// What a use of a unit leaves in autograd's graph: a boundary at its inputs, hooks at its outputs,
// or, with activation checkpointing, one node that computes the unit again.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/base/unwinding.h"
#include "zeroshard/engine/gradient_hooks.h"
#include "zeroshard/engine/torch_version.h"

namespace zeroshard {

// A unit of an engine that may be gone.
struct UnitLink {
  std::shared_ptr<CoreLink> link = {};
  std::size_t unit = 0;

  Core* core() const { return link == nullptr ? nullptr : link->core; }
};

// Between before_forward and after_forward, an exception included.
class ForwardScope {
 public:
  explicit ForwardScope(const UnitLink& unit);
  ~ForwardScope();
  ForwardScope(const ForwardScope&) = delete;
  ForwardScope& operator=(const ForwardScope&) = delete;

  // Whether this use is to be differentiated later: gradients are on, and it is no recompute.
  bool leaves_graph() const { return leaves_graph_; }

 private:
  UnitLink unit_;
  bool leaves_graph_ = false;
  const Unwinding unwinding_;
};

// A use whose backward the engine waits for. It lives in the graph: where that is dropped without a
// backward (an exception, a loss that nobody wanted), the engine waits no longer.
class PendingUse {
 public:
  explicit PendingUse(UnitLink unit);
  ~PendingUse();
  PendingUse(const PendingUse&) = delete;
  PendingUse& operator=(const PendingUse&) = delete;

  const UnitLink& unit() const { return unit_; }
  // Counts once. Where a graph is kept and differentiated again, the end of backward counts.
  void end();
  // Nothing will call end(): no input needs a gradient.
  void leave_open();

 private:
  UnitLink unit_;
  bool ended_ = false;
  bool open_ = false;
};
using Use = std::shared_ptr<PendingUse>;

// What the unit was given, and the tensor over the same memory that it computes with.
struct MarkedInput {
  at::Tensor given;
  at::Tensor marked;
  KeptNode boundary;         // behind `marked`, as long as that is unchanged
  std::int64_t version = 0;  // of both, before the unit ran
};

// Inputs that require a gradient get a node behind which the unit's backward is over. Returns those
// that somebody else may use again.
std::vector<MarkedInput> mark_inputs(const Use& use, const std::vector<at::Tensor*>& inputs);
// What the unit has changed in place is changed for the caller's gradients, too.
void carry_changes_over(const Use& use, std::vector<MarkedInput> inputs);
// A gradient that arrives at an output announces the unit's backward.
void mark_outputs(const Use& use, const std::vector<at::Tensor*>& outputs);

// Runs `forward` on the inputs and keeps only them; backward runs it again, with the random numbers
// of the first time.
using FlatForward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
std::vector<at::Tensor> run_checkpointed(const UnitLink& unit, const FlatForward& forward,
                                         const std::vector<at::Tensor>& inputs);

}  // namespace zeroshard
