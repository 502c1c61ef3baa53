// What a norm is taken of: gradients that may stay in the tensors that autograd has made.
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/base/dtype.h"

namespace zeroshard {

// fp32, bf16 or fp16 elements that lie at `offset` of a span.
struct NormPiece {
  const void* data = nullptr;
  DType dtype = DType::fp32;
  std::int64_t count = 0;
  std::int64_t offset = 0;
};

// An array of `count` elements that need not be in one place: the pieces are in order and do not
// overlap, and what lies between them counts as zero.
struct NormSpan {
  std::vector<NormPiece> pieces = {};
  std::int64_t count = 0;
};

}  // namespace zeroshard
