// The layout of one flat group: where each parameter starts and which span each rank owns.
//
//   FlatLayout layout({100, 7}, /*world_size=*/2);
//   layout.parameter_span(1);  // [128, 135): parameters start at multiples of kAlignment
//   layout.padded_numel();     // 256: a multiple of kAlignment * world_size
//   layout.shard(1);           // [128, 256): equal, contiguous, aligned
//
// A value made from numels and world size alone. It does not depend on stage, bucket, tier or
// threshold, which is why a state may change any of those and keep its offsets. Padding is zero and
// is never stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/layout/span.h"

namespace zeroshard {

// The part of one parameter that lies in one shard, in the three coordinates people need.
struct ParameterPiece {
  std::size_t parameter = 0;
  Span flat;                      // in the flat group
  Span within_parameter;          // in the parameter, counted from its first element
  std::int64_t shard_offset = 0;  // where it starts, counted from the shard's first element

  bool operator==(const ParameterPiece& other) const = default;
};

class FlatLayout {
 public:
  // Numels may be zero, and there may be none. A negative one, a world size below 1 or a total
  // that does not fit in 64 bits is an InvariantError.
  FlatLayout(const std::vector<std::int64_t>& parameter_numels, int world_size);

  int world_size() const noexcept { return world_size_; }
  std::size_t parameter_count() const noexcept { return parameters_.size(); }
  std::int64_t numel() const noexcept { return numel_; }                // without padding
  std::int64_t padded_numel() const noexcept { return padded_numel_; }  // world_size * shard_numel
  std::int64_t shard_numel() const noexcept { return padded_numel_ / world_size_; }

  const Span& parameter_span(std::size_t parameter) const;
  Span shard(int rank) const;

  // The rank whose shard holds this offset of the flat group, padding included.
  int owner_of(std::int64_t offset) const;

  // The part of a parameter that a rank owns; empty spans where it owns none.
  ParameterPiece piece(std::size_t parameter, int rank) const;

  // All pieces of a shard that are not empty, in order: O(log parameters + pieces).
  std::vector<ParameterPiece> pieces(int rank) const;

  bool operator==(const FlatLayout& other) const = default;

 private:
  void check_rank(int rank) const;

  std::vector<Span> parameters_;
  std::int64_t numel_ = 0;
  std::int64_t padded_numel_ = 0;
  int world_size_ = 1;
};

}  // namespace zeroshard
