// What has been done to a loss before it is differentiated: multiplied by the loss scale, divided
// by the micro-steps of a step. A backward of ours does both; in one that somebody else calls, the
// gradients are divided when they arrive, and fp16 asks for engine.scale(loss).
#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace zeroshard {

// Of the backward under way.
struct LossState {
  bool scaled = true;
  double divisor = 1.0;  // what gradients have still to be divided by
};

// Says, on all threads on which this backward runs and in all backwards inside it, that an engine
// differentiates a loss which it has divided by so much (nothing: its caller has divided it). The
// parameters of another engine that this backward reaches need only the rest of their own division.
class DividedLossScope {
 public:
  explicit DividedLossScope(std::optional<double> parts);

 private:
  c10::DebugInfoGuard guard_;
};

// By what the gradients of a loss that is to be divided by `parts` have still to be divided, inside
// whatever scopes are open.
double divisor_owed(double parts);

// Throws StateError where the loss is not one number, or nothing was recorded to differentiate it.
void refuse_unfit(const at::Tensor& loss);

// Whether the backward under way goes to all leaves; autograd's grad() goes to those it is given.
bool reaches_all_leaves();

}  // namespace zeroshard
