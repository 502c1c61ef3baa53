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
#include "zeroshard/engine/torch_version.h"
#include "zeroshard/engine/unit_uses.h"
#include "zeroshard/engine/weak_core.h"

namespace zeroshard {

// A unit of an engine that may be gone.
struct UnitLink {
  std::shared_ptr<WeakCore> engine = {};
  std::size_t unit = 0;

  CoreAccess core() const { return CoreAccess(engine); }
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

// A forward of a unit that may be differentiated. It lives in the graph: when that is destroyed,
// with or without a backward, the engine forgets it.
class UnitUse {
 public:
  explicit UnitUse(UnitLink unit);
  ~UnitUse();
  UnitUse(const UnitUse&) = delete;
  UnitUse& operator=(const UnitUse&) = delete;

  // Which backwards it belongs to is known by this node, until that is destroyed.
  void add_node(const NodePointer& node) const;
  void remove_node(const torch::autograd::Node* node) const;
  // A gradient of an output has arrived.
  void begin_backward() const;
  // The gradients of its inputs are there.
  void end_backward() const;
  // Nothing will call end_backward(): no input needs a gradient.
  void end_by_gradients() const;
  const UnitLink& unit() const { return unit_; }

 private:
  UnitLink unit_;
  UnitUses::Id id_;
};
using Use = std::shared_ptr<UnitUse>;

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
// These uses have no graph of their own yet, and belong to the graph of these outputs.
void follow_graph_of(const std::vector<at::Tensor*>& outputs, const std::vector<Use>& uses);
// A backward that comes to one of these outputs begins there for the engine. It might else begin in
// a graph task inside it, of a reentrant checkpoint without a unit, and end with that one.
void open_backward_at(const std::vector<at::Tensor*>& outputs,
                      const std::shared_ptr<WeakCore>& engine);
// A gradient that arrives at an output announces the unit's backward.
void mark_outputs(const Use& use, const std::vector<at::Tensor*>& outputs);

// Runs `forward` on the inputs and keeps only them; backward runs it again, with the random numbers
// of the first time.
using FlatForward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
std::vector<at::Tensor> run_checkpointed(const UnitLink& unit, const FlatForward& forward,
                                         const std::vector<at::Tensor>& inputs);

}  // namespace zeroshard
