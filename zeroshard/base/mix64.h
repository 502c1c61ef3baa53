// SplitMix64's finaliser (Steele, Lea and Flood, 2014): every bit of the input moves every bit of
// the output, so that a counter gives random numbers.
#pragma once

#include <cstdint>

namespace zeroshard {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

}  // namespace zeroshard
