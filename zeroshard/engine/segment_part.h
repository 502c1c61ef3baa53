// A part of a segment's update.
#pragma once

#include <cstdint>

#include "zeroshard/optim/span_part.h"

namespace zeroshard {

inline SegmentUpdate part_of(const SegmentUpdate& whole, std::int64_t begin, std::int64_t count) {
  SegmentUpdate part = whole;
  part.span = part_of(whole.span, begin, count);
  return part;
}

}  // namespace zeroshard
