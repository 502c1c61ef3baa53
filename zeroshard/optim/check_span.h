// What every span to update must hold, wherever it lies.
#pragma once

#include "zeroshard/optim/update.h"

namespace zeroshard {

// Fails a check where an array that the optimizer needs is missing, or a dtype is not one of ours.
void check_span(const OptimizerOptions& options, const UpdateSpan& span);

}  // namespace zeroshard
