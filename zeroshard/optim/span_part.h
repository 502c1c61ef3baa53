// A part of a span. Each element's update is its own, so cuts change no bit.
#pragma once

#include <cstdint>

#include "zeroshard/optim/update.h"

namespace zeroshard {

inline UpdateSpan part_of(const UpdateSpan& whole, std::int64_t begin, std::int64_t count) {
  UpdateSpan part = whole;
  part.gradient = element_at(whole.gradient, begin, whole.gradient_dtype);
  if (whole.master != nullptr) part.master += begin;
  if (whole.master_low != nullptr) part.master_low += begin;
  for (float*& moment : part.moments) {
    if (moment != nullptr) moment += begin;
  }
  if (whole.parameter != nullptr) {
    part.parameter = element_at(whole.parameter, begin, whole.parameter_dtype);
  }
  part.count = count;
  return part;
}

}  // namespace zeroshard
