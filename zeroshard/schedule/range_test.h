// LRRangeTest: the learning rate grows without end, to find where training starts to diverge.
#pragma once

#include <cstdint>

#include "zeroshard/schedule/options.h"

namespace zeroshard {

double lr_at(const LrRangeTestOptions& options, std::int64_t iteration);

}  // namespace zeroshard
