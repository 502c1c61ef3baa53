// How a norm's sum of squares is cut, the same on every device: blocks of elements from a span's
// start, each summed by itself; batches of blocks, their sums added in order, each batch by itself;
// then the batches of a span in order, and the spans in order.
#pragma once

#include <cstdint>
#include <vector>

namespace zeroshard {

inline constexpr std::int64_t kNormBlock = 4096;      // elements
inline constexpr std::int64_t kBlocksInBatch = 4096;  // 16 Mi elements

constexpr std::int64_t norm_blocks(std::int64_t count) {
  return (count + kNormBlock - 1) / kNormBlock;
}
constexpr std::int64_t norm_batches(std::int64_t count) {
  return (norm_blocks(count) + kBlocksInBatch - 1) / kBlocksInBatch;
}

// What an accelerator's norm (optim/device_norm.h) over spans of so many elements keeps in the
// device's memory while it is under way: a double per block and per batch.
inline std::int64_t norm_scratch_bytes(const std::vector<std::int64_t>& span_counts) {
  std::int64_t sums = 0;
  for (const std::int64_t count : span_counts) sums += norm_blocks(count) + norm_batches(count);
  return sums * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace zeroshard
