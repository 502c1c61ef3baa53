// What a use of a unit leaves in autograd's graph: a boundary at its inputs, hooks at its outputs,
// or, with activation checkpointing, one node that computes the unit again.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/engine/gradient_hooks.h"

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
};

// Inputs that require a gradient get a node behind which the unit's backward is over.
void mark_inputs(const UnitLink& unit, const std::vector<at::Tensor*>& inputs);
// A gradient that arrives at an output announces the unit's backward.
void mark_outputs(const UnitLink& unit, const std::vector<at::Tensor*>& outputs);

// Runs `forward` on the inputs and keeps only them; backward runs it again, with the random numbers
// of the first time.
using FlatForward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
std::vector<at::Tensor> run_checkpointed(const UnitLink& unit, const FlatForward& forward,
                                         const std::vector<at::Tensor>& inputs);

}  // namespace zeroshard
