// Segments: the runs of a shard that one optimizer pass may treat alike.
#pragma once

#include <vector>

#include "zeroshard/layout/flat_layout.h"
#include "zeroshard/layout/span.h"

namespace zeroshard {

// A span with one set of hyper-parameters. The id is the caller's: an index of a parameter group.
struct Segment {
  Span span;  // in the flat group; `span.shifted(-shard.begin())` is local to the shard
  int hyper_parameters = 0;

  bool operator==(const Segment& other) const = default;
};

// The segments of a rank's shard, in order and disjoint: every real element of the shard is in
// exactly one. `hyper_parameters` has one id per parameter of the layout.
//
// Neighbours with equal ids become one segment, alignment padding between them included. That is
// safe because padding is zero and stays zero: its gradient is zero, so an element-wise optimizer
// leaves it where it is. One long pass is worth those few elements.
std::vector<Segment> segments_of(const FlatLayout& layout, const std::vector<int>& hyper_parameters,
                                 int rank);

}  // namespace zeroshard
