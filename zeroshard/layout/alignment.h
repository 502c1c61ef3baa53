// The two alignments of every layout. They are part of exactness and not only of speed: matrix
// kernels round differently on misaligned weights, so a weight must sit equally in every stage.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/layout/checked.h"

namespace zeroshard {

// In elements: where parameters and shards may start in a flat group. Counted in elements so that
// the 16-bit parameters, the gradients and the fp32 master share one set of offsets.
inline constexpr std::int64_t kAlignment = 64;

// In bytes: where every buffer starts, and what its size is rounded up to.
inline constexpr std::int64_t kBufferAlignmentBytes = 256;

// What a buffer of `numel` elements takes.
inline std::int64_t buffer_bytes(std::int64_t numel, DType dtype) {
  return checked_round_up(checked_mul(numel, bytes_of(dtype)), kBufferAlignmentBytes);
}

}  // namespace zeroshard
