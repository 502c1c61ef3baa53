// One unit's forward and backward with sizes alone. Units are rehearsed one by one, since most of a
// model's are alike.
#pragma once

#include <cstdint>
#include <functional>

#include "zeroshard/layout/activations.h"
#include "zeroshard/models/size_ops.h"

namespace zeroshard {

struct UnitRehearsal {
  std::int64_t input_numel = 0;
  bool input_needs_gradient = true;
  // The input is let go where the module does.
  std::function<SizeTensor(const SizeOps&, SizeTensor input)> forward;
  bool checkpointed = false;
  // What a second forward need not compute again (residual.h).
  std::int64_t kept_beside = 0;
  std::function<SizeTensor(const SizeOps&, SizeTensor input)> again = {};
  // A table's gradient that waits for the table's other use.
  std::int64_t left = 0;
};

// Its output is the next unit's input, which counts it. `trains`: its parameters have gradients.
UnitActivations rehearse(const UnitRehearsal& unit, const ActivationQuery& query,
                         bool trains = true);

}  // namespace zeroshard
