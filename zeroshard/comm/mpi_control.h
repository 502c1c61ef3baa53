// The control channel of an MPI job: MPI carries rank 0's address, and the wait for a late rank is
// explained by what the channel knows.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include "zeroshard/comm/control.h"
#include "zeroshard/comm/mpi_link.h"

namespace zeroshard {

// All ranks call this together. The channel is null where there is one rank. Throws CommError.
std::unique_ptr<ControlChannel> open_control_channel(MpiLink& link);

// The error of an operation that this rank's peer has left, or null where nobody is lost.
std::exception_ptr loss_seen_in(const OperationTag& tag, const ControlBoard& board);

// The error of an operation that has waited this long for some of `candidates`. Asks rank 0 who of
// them it really is: a rank that is ahead waits for others that wait themselves.
std::exception_ptr late_ranks(const RankStatus& own, std::chrono::milliseconds waited,
                              const std::vector<int>& candidates, ControlChannel& channel);

}  // namespace zeroshard
