// Whether a run will be able to write what it is asked to. What is tried for that is gone at once.
#pragma once

#include "zeroshard/trainer/options.h"

namespace zeroshard::cli {

// --log, --trace, --out and --save. Throws ConfigError where a path cannot be meant so,
// StorageError where it may not be written.
void check_outputs(const TrainOptions& options);

}  // namespace zeroshard::cli
