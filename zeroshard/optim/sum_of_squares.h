// The gradient norm's kernel: the sum of squares of a span, in fp64.
//
// Blocks of 4096 elements from the span's start are summed each by itself and then added in order,
// so the bits do not depend on the number of threads or the instruction set. Finite elements give a
// finite sum (no square of an fp32 overflows fp64); an infinity or a NaN gives an infinity or a
// NaN.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/thread_pool.h"
#include "zeroshard/optim/isa.h"

namespace zeroshard {

inline constexpr std::int64_t kNormBlock = 4096;

// `data` is fp32, bf16 or fp16.
double sum_of_squares(const void* data, DType dtype, std::int64_t count, ThreadPool& pool,
                      Isa isa = best_isa());

}  // namespace zeroshard
