// One point of a series.
#pragma once

#include <string_view>

namespace zeroshard {

struct Scalar {
  std::string_view tag;  // "Train/Samples/lr"
  double value;
};

}  // namespace zeroshard
