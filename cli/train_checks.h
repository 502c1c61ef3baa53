// What can be said against a run before anything is started. It needs no torch, so that a mistake
// is one sentence after milliseconds, and not one per rank.
#pragma once

#include "zeroshard/trainer/options.h"

namespace zeroshard::cli {

// Prints the problems of the configuration file on stderr; false where one of them is an error.
// All other mistakes are thrown: a ConfigError, or a StorageError where the disk says no. Nothing
// is written or truncated, and what is created to see whether it can be is gone again.
bool may_train(const TrainOptions& options, int ranks);

// What the configuration file says of batch sizes; nothing where the command line replaces them.
BatchOptions batch_sizes(const TrainOptions& options);

// Throws ConfigError where the folder holds no model that could go on from the prompt.
void check_generation(const GenerateOptions& options);

}  // namespace zeroshard::cli
