// Which ranks share a machine.
#pragma once

#include <cstdint>

namespace zeroshard {

// A hash of this machine's name: the same for ranks on one machine.
std::int32_t this_host();

}  // namespace zeroshard
