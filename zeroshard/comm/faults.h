// What backends say when ranks are out of step: one wording, whichever backend sees it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/operation.h"

namespace zeroshard {

// A call, and the rank that has brought it.
struct RankCall {
  int rank = 0;
  OperationTag tag = {};
};

// Two ranks have brought different calls. `same_name`: only their sizes differ.
CommError out_of_step(const RankCall& one, const RankCall& other, bool same_name);

// The operation has waited this long for these ranks; `where` says what is known of them.
CommError waited_too_long(const OperationTag& tag, std::chrono::milliseconds time,
                          const std::vector<int>& ranks, const std::string& where = {});

// The communicator goes while the operation is under way.
CommError left_behind();

// The rank's process is gone, as noticed in this operation.
CommError rank_gone(int rank, const OperationTag& tag);

// The rank ends with an error of its own.
PeerError rank_failed(int rank, const OperationTag& tag);

// The rank's program has ended, and this operation waits for it.
CommError rank_ended(int rank, const OperationTag& tag);

}  // namespace zeroshard
