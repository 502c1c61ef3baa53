// Arithmetic on element and byte counts. Shapes come from outside, so a count that does not fit in
// 64 bits must be an error here and not a negative size somewhere else.
#pragma once

#include <cstdint>

#include "zeroshard/base/check.h"

namespace zeroshard {

inline std::int64_t checked_add(std::int64_t left, std::int64_t right) {
  std::int64_t sum = 0;
  ZS_CHECK(!__builtin_add_overflow(left, right, &sum), "{} + {} does not fit in 64 bits", left,
           right);
  return sum;
}

inline std::int64_t checked_mul(std::int64_t left, std::int64_t right) {
  std::int64_t product = 0;
  ZS_CHECK(!__builtin_mul_overflow(left, right, &product), "{} * {} does not fit in 64 bits", left,
           right);
  return product;
}

// The smallest multiple of `multiple` that is not below `value`.
inline std::int64_t checked_round_up(std::int64_t value, std::int64_t multiple) {
  ZS_CHECK_GE(value, 0, "only a count can be rounded up");
  ZS_CHECK_GT(multiple, 0, "cannot round {} up", value);
  const std::int64_t rest = value % multiple;
  return rest == 0 ? value : checked_add(value, multiple - rest);
}

}  // namespace zeroshard
