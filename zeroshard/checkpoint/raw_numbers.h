// What a handler of RapidJSON's lacks where numbers are told as text (kParseNumbersAsStringsFlag).
// For the sources of this folder only.
#pragma once

#include <cstdint>

namespace zeroshard {

struct RawNumbers {
  static bool Int(int) { return false; }
  static bool Uint(unsigned) { return false; }
  static bool Int64(std::int64_t) { return false; }
  static bool Uint64(std::uint64_t) { return false; }
  static bool Double(double) { return false; }
};

}  // namespace zeroshard
