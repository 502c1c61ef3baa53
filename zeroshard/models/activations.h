// What the built-in models take of a device beside the engine's memory, before anything is
// allocated: their operators are gone through with sizes alone (size_tape.h).
#pragma once

#include "zeroshard/layout/activations.h"
#include "zeroshard/models/options.h"

namespace zeroshard {

// Uses name units as unit_shapes() lists them, without the root unit where that is empty.
ModelActivations activations_of(const ModelOptions& model, const ActivationQuery& query);

}  // namespace zeroshard
