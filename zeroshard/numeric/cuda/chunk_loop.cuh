// A block's share of a table of arrays (numeric/chunks.h), and elements by fours.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/half.h"
#include "zeroshard/numeric/chunks.h"
#include "zeroshard/numeric/float_at.h"

namespace zeroshard::device_code {

// Four neighbours, which lie where four may be loaded at once.
struct Four {
  float values[4];
};

__device__ inline Four load_four(const void* array, DType dtype, std::int64_t i) {
  if (dtype == DType::fp32) {
    const float4 wide = *reinterpret_cast<const float4*>(static_cast<const float*>(array) + i);
    return {{wide.x, wide.y, wide.z, wide.w}};
  }
  const ushort4 bits =
      *reinterpret_cast<const ushort4*>(static_cast<const std::uint16_t*>(array) + i);
  if (dtype == DType::bf16) {
    return {{bf16_to_fp32(bits.x), bf16_to_fp32(bits.y), bf16_to_fp32(bits.z),
             bf16_to_fp32(bits.w)}};
  }
  return {
      {fp16_to_fp32(bits.x), fp16_to_fp32(bits.y), fp16_to_fp32(bits.z), fp16_to_fp32(bits.w)}};
}

__device__ inline void store_four(void* array, DType dtype, std::int64_t i, const Four& four) {
  const float* v = four.values;
  if (dtype == DType::fp32) {
    *reinterpret_cast<float4*>(static_cast<float*>(array) + i) =
        make_float4(v[0], v[1], v[2], v[3]);
    return;
  }
  auto* to = reinterpret_cast<ushort4*>(static_cast<std::uint16_t*>(array) + i);
  if (dtype == DType::bf16) {
    *to = make_ushort4(fp32_to_bf16(v[0]), fp32_to_bf16(v[1]), fp32_to_bf16(v[2]),
                       fp32_to_bf16(v[3]));
  } else {
    *to = make_ushort4(fp32_to_fp16(v[0]), fp32_to_fp16(v[1]), fp32_to_fp16(v[2]),
                       fp32_to_fp16(v[3]));
  }
}

// The number of the entry whose array has this chunk: the last that starts at or before it.
template <typename Entries>
__device__ int entry_with(const Entries& entries, int count, std::int64_t chunk) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (entries[middle].cut.first_chunk <= chunk) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Calls one(i) or four(i) for every element of chunk number `chunk` of the array.
template <typename One, typename ByFour>
__device__ void for_each_in_chunk(const ArrayCut& cut, std::int64_t chunk, const One& one,
                                  const ByFour& four) {
  const std::int64_t base = cut.head + chunk * kChunk;
  const std::int64_t end = base + kChunk < cut.count ? base + kChunk : cut.count;
  const int thread = static_cast<int>(threadIdx.x);
  if (!cut.by_fours) {
#pragma unroll 1  // longer code is no faster here, and slow to compile on the user's machine
    for (std::int64_t i = base + thread; i < end; i += kChunkThreads) one(i);
    return;
  }
  if (chunk == 0 && thread < cut.head) one(thread);
  const int fours = static_cast<int>((end - base) / 4);
#pragma unroll 1
  for (int k = thread; k < fours; k += kChunkThreads) four(base + 4 * k);
  const std::int64_t last = base + 4 * fours + thread;
  if (last < end) one(last);
}

}  // namespace zeroshard::device_code
