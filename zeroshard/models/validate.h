// Whether options describe a model that can be built.
#pragma once

#include "zeroshard/models/options.h"

namespace zeroshard {

// Throws ConfigError with the option, its value and what to do. Limits are far above any real
// model, and such that counts of elements and bytes fit in 64 bits.
void validate(const GptOptions& options);
void validate(const DenseOptions& options);
void validate(const ModelOptions& options);

}  // namespace zeroshard
