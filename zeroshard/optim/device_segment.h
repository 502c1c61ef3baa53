// What the kernels' tables hold: plain structs, which nvcc compiles too.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/numeric/chunks.h"
#include "zeroshard/optim/coefficients.h"
#include "zeroshard/optim/kernels.h"

namespace zeroshard {

// A segment to update by one rule. parameter_dtype fp32: the master is the parameter.
template <typename Coefficients>
struct DeviceSegment {
  UpdatePointers at;
  ArrayCut cut;
  DType gradient_dtype;
  DType parameter_dtype;
  Coefficients coefficients;
};

// A piece of a norm. All spans lie one behind the other, each from the start of a block on, and
// `begin` counts elements from the first span's start.
struct DeviceNormPiece {
  const void* data;
  std::int64_t begin;
  std::int64_t count;
  DType dtype;
};

// Blocks of one span whose sums are added by themselves.
struct DeviceNormBatch {
  std::int64_t first_block;
  std::int64_t blocks;
};

}  // namespace zeroshard
