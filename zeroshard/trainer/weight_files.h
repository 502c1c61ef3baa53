// The files of a model's weights against the model, without torch: asked by `zeroshard` before a
// rank is started, and by the ranks, with the same sentences.
#pragma once

#include <string>

#include "zeroshard/base/dtype.h"
#include "zeroshard/checkpoint/state_files.h"
#include "zeroshard/models/options.h"

namespace zeroshard {

// Throws ConfigError where the tensors are not the model's: one is missing, has another shape, is
// no floating point, or is one that the model does not have.
void check_weights(const StateFiles& files, const ModelOptions& model);

// Throws StorageError where the weights, to be written in this dtype into the folder `out`, will
// not fit. Its parent must exist; what is in `out` stays until the new one is complete.
void check_room(const std::string& out, const ModelOptions& model, DType dtype);

// The same for one checkpoint in the folder `save`, which may be missing yet.
void check_room_for_checkpoint(const std::string& save, const ModelOptions& model, int moments);

}  // namespace zeroshard
