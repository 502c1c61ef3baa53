// The largest count there is, for tests of overflow.
#pragma once

#include <cstdint>
#include <limits>

namespace zeroshard {

inline constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

}  // namespace zeroshard
