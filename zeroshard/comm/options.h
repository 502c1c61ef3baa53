// Knobs of the communicator.
#pragma once

#include <chrono>

namespace zeroshard {

struct CommOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // then a stuck peer is an error
  bool deterministic = false;  // sums in rank order, whichever library moves them
};

}  // namespace zeroshard
