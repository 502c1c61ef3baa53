// A part of a segment's update. Each element's update is its own, so cuts change no bit.
#pragma once

#include <cstdint>

#include "zeroshard/layout/alignment.h"
#include "zeroshard/optim/update.h"

namespace zeroshard {

inline SegmentUpdate part_of(const SegmentUpdate& whole, std::int64_t begin, std::int64_t count) {
  SegmentUpdate part = whole;
  UpdateSpan& span = part.span;
  span.gradient = element_at(const_cast<void*>(span.gradient), begin, span.gradient_dtype);
  span.master += begin;
  for (float*& moment : span.moments) {
    if (moment != nullptr) moment += begin;
  }
  span.parameter = element_at(span.parameter, begin, span.parameter_dtype);
  span.count = count;
  return part;
}

}  // namespace zeroshard
