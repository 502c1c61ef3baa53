// Where two lists of spans meet: what a reader wants against what files or ranks hold.
#pragma once

#include <cstddef>
#include <vector>

#include "zeroshard/layout/span.h"

namespace zeroshard {

// A range that one entry of each list holds. The indices say where: the caller keeps rank, file or
// byte offset in lists of its own, parallel to the spans.
struct Overlap {
  Span span;
  std::size_t wanted = 0;
  std::size_t stored = 0;

  bool operator==(const Overlap& other) const = default;
};

// All non-empty intersections, in order, in time linear in both lists. Each list must be in order
// and without overlaps of its own (else InvariantError); gaps and empty spans are fine. Everything
// wanted is there exactly if the sizes of the result add up to the sizes of `wanted`.
std::vector<Overlap> overlaps(const std::vector<Span>& wanted, const std::vector<Span>& stored);

}  // namespace zeroshard
