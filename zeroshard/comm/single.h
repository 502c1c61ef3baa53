// One rank: nothing moves, every operation is done when it returns.
#pragma once

#include <memory>

#include "zeroshard/comm/communicator.h"

namespace zeroshard {

std::unique_ptr<Communicator> make_single_communicator();

}  // namespace zeroshard
