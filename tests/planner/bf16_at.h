#pragma once

#include "zeroshard/planner/footprint.h"

namespace zeroshard {

inline FootprintOptions bf16_at(int stage) {
  FootprintOptions options;
  options.zero.stage = stage;
  options.precision.bf16.enabled = true;
  return options;
}

}  // namespace zeroshard
