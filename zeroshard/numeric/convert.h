// Arrays of floats from one dtype to another, and sums across dtypes: base/half.h's bits, many
// elements at a time.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/thread_pool.h"
#include "zeroshard/numeric/isa.h"

namespace zeroshard {

// fp32, bf16 or fp16 elements; how many is said beside it.
struct Floats {
  void* data = nullptr;
  DType dtype = DType::fp32;
};
struct ConstFloats {
  const void* data = nullptr;
  DType dtype = DType::fp32;
};

// to[i] = from[i], rounded to nearest even. Equal dtypes are copied bit by bit. The arrays do not
// overlap.
void convert(const Floats& to, const ConstFloats& from, std::int64_t count, ThreadPool& pool,
             Isa isa = best_isa());

// to[i] = to[i] + from[i], added in fp32 and rounded once to `to`'s dtype. A NaN in the result is
// always the same one.
void accumulate(const Floats& to, const ConstFloats& from, std::int64_t count, ThreadPool& pool,
                Isa isa = best_isa());

}  // namespace zeroshard
