// A configuration's batch sizes, for one rank of a group.
#pragma once

#include <cstdint>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/trainer/batches.h"
#include "zeroshard/trainer/options.h"

namespace zeroshard {

// Where the configuration gives none, `otherwise` samples per step over all ranks. Throws
// ConfigError where the sizes and the number of ranks do not fit together.
BatchShape batch_shape(BatchOptions batch, const Communicator& comm, std::int64_t otherwise);

}  // namespace zeroshard
