// What the built-in models take of a device beside the engine's memory, before anything is
// allocated: their operators are gone through with sizes alone (size_tape.h).
#pragma once

#include <cstdint>

#include "zeroshard/layout/activations.h"
#include "zeroshard/models/options.h"
#include "zeroshard/models/size_ops.h"

namespace zeroshard {

struct ActivationOptions {
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 0;  // 0: the model's
  int width = 2;              // bytes of a parameter's element
  SizeDevice device = {};
  // Parameters' gradients stay as autograd made them (engine/gradient_group.h).
  bool holds_gradients = false;
};

// Uses name units as unit_shapes() lists them, without the root unit where that is empty.
ModelActivations activations_of(const ModelOptions& model, const ActivationOptions& options);

}  // namespace zeroshard
