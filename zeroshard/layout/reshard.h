// From N ranks to M: which elements of whose shard make up a rank's new shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/layout/flat_layout.h"
#include "zeroshard/layout/span.h"

namespace zeroshard {

// Copy `within_parameter.size()` elements from one shard to another.
struct ReshardPiece {
  std::size_t parameter = 0;
  Span within_parameter;
  int source_rank = 0;
  std::int64_t source_offset = 0;       // in the source rank's shard
  std::int64_t destination_offset = 0;  // in the destination rank's shard

  bool operator==(const ReshardPiece& other) const = default;
};

// The pieces of `destination_rank`'s shard, in order: each real element once, no padding. Both
// layouts must be of the same parameters (else InvariantError).
std::vector<ReshardPiece> reshard(const FlatLayout& source, const FlatLayout& destination,
                                  int destination_rank);

}  // namespace zeroshard
