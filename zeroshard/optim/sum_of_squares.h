// The gradient norm's kernel: the sum of squares of a span, in fp64.
//
// Blocks of 4096 elements from the span's start are summed each by itself, and added in order in
// batches of 4096 blocks, which are added in order (layout/norm_blocks.h). So the bits do not
// depend on the number of threads, the instruction set or the device (device_norm.h). A span of up
// to 16 Mi elements is one batch: the plain sum of its blocks. Finite elements give a finite sum
// (no square of an fp32 overflows fp64); an infinity or a NaN gives an infinity or a NaN.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/thread_pool.h"
#include "zeroshard/layout/norm_blocks.h"
#include "zeroshard/numeric/isa.h"
#include "zeroshard/optim/norm_span.h"

namespace zeroshard {

// `data` is fp32, bf16 or fp16.
double sum_of_squares(const void* data, DType dtype, std::int64_t count, ThreadPool& pool,
                      Isa isa = best_isa());

// The same of a span in pieces, which are of one dtype: the bits are those of the whole array.
double sum_of_squares(const NormSpan& span, ThreadPool& pool, Isa isa = best_isa());

}  // namespace zeroshard
