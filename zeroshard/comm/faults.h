// What backends say when ranks are out of step: one wording, whichever backend sees it.
#pragma once

#include <chrono>
#include <vector>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/message.h"

namespace zeroshard {

// Rank 0 and `rank` have brought different calls. `same_name`: only their sizes differ.
CommError out_of_step(const OperationTag& of_rank_0, int rank, const OperationTag& of_rank,
                      bool same_name);

// The operation has waited this long for these ranks.
CommError waited_too_long(const OperationTag& tag, std::chrono::milliseconds time,
                          const std::vector<int>& ranks);

}  // namespace zeroshard
