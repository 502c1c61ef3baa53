// One rank: nothing goes anywhere, but values may go from one tier to another. Gathers into other
// memory are copies on a stream of their own, behind the caller's current one; they overlap with
// whatever comes next, as a gather of several ranks does. Host memory that is not pinned is carried
// through memory that is (carry_through_host.h). What need not move is done when the call returns.
#pragma once

#include <memory>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

// All device memory in its calls lies on `device`. Told of the CPU only, it refuses to move device
// memory with a CommError.
std::unique_ptr<Communicator> make_single_communicator(Device device = kCpu);

}  // namespace zeroshard
