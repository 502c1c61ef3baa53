// What the command line says in place of the configuration: --lr and --batch-size.
#pragma once

#include "zeroshard/trainer/run_settings.h"

namespace zeroshard {

// Changes the configuration of a run whose optimizer is chosen, and names in `run.replaced` what
// was there before. Throws ConfigError where the value could have no effect.
void take_learning_rate(RunSettings& run, double lr);
void take_batch_size(RunSettings& run, std::int64_t samples, int world_size);

}  // namespace zeroshard
