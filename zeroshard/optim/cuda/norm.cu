// The norm's sum of squares (optim/device_norm.h), in the order that layout/norm_blocks.h says.
// nvcc: --ftz=true
#include "zeroshard/layout/norm_blocks.h"
#include "zeroshard/numeric/cuda/chunk_loop.cuh"
#include "zeroshard/numeric/lanes_scalar.h"
#include "zeroshard/optim/device_segment.h"

namespace zeroshard::device_code {

// In a block element i goes to sum i modulo 16. Four threads share a block: each has four
// neighbouring sums, so that it loads four elements at once from every row of sixteen.
constexpr int kSums = 16, kOwnSums = 4, kThreadsInBlock = kSums / kOwnSums;

struct OwnSums {
  kernels::ScalarLanes::Squares squares[kOwnSums];

  __device__ void add(const Four& four) {
#pragma unroll
    for (int k = 0; k < kOwnSums; ++k) squares[k].add({four.values[k]});
  }
};

// The part of a piece that lies in one block: elements [begin, end) of the block. Element i of the
// block is element i + shift of the array.
template <DType dtype>
struct BlockPart {
  const void* data;
  std::int64_t shift;
  int begin, end;

  __device__ bool by_fours(int column) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const std::uintptr_t element = address / (dtype == DType::fp32 ? 4U : 2U);
    return (element + static_cast<std::uintptr_t>(shift + column)) % 4U == 0U;
  }

  // A row at an end of the part: what lies outside counts as zero, which changes no sum.
  __device__ void add_edge(int first, OwnSums& sums) const {
#pragma unroll
    for (int k = 0; k < kOwnSums; ++k) {
      const int i = first + k;
      if (i >= begin && i < end) sums.squares[k].add({float_at(data, dtype, i + shift)});
    }
  }

  __device__ void add_rows(int first, int last, OwnSums& sums) const {
    if (by_fours(first)) {
#pragma unroll 8  // that many loads are under way at once
      for (int i = first; i < last; i += kSums) sums.add(load_four(data, dtype, i + shift));
      return;
    }
#pragma unroll 2
    for (int i = first; i < last; i += kSums) {
      Four four;
#pragma unroll
      for (int k = 0; k < kOwnSums; ++k) four.values[k] = float_at(data, dtype, i + k + shift);
      sums.add(four);
    }
  }

  // Row after row, the four columns from `column` on.
  __device__ void add_to(OwnSums& sums, int column) const {
    const int row_begin = begin <= column ? 0 : (begin - column + kSums - 1) / kSums;
    const int row_end = end < column + kOwnSums ? 0 : (end - column - kOwnSums) / kSums + 1;
    if (row_begin > 0) add_edge((row_begin - 1) * kSums + column, sums);
    if (row_begin < row_end) add_rows(row_begin * kSums + column, row_end * kSums + column, sums);
    if (row_end >= row_begin) add_edge(row_end * kSums + column, sums);
  }
};

// The first piece that ends behind `element`.
__device__ inline int piece_at(const DeviceNormPiece* pieces, int count, std::int64_t element) {
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (pieces[middle].begin + pieces[middle].count <= element) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <DType dtype>
__device__ void add_piece(const DeviceNormPiece& piece, std::int64_t block_begin, int column,
                          OwnSums& sums) {
  const std::int64_t begin = piece.begin - block_begin, end = begin + piece.count;
  const BlockPart<dtype> part{piece.data, -begin, begin < 0 ? 0 : static_cast<int>(begin),
                              end > kNormBlock ? static_cast<int>(kNormBlock)
                                               : static_cast<int>(end)};
  part.add_to(sums, column);
}

__device__ inline OwnSums sums_of_block(const DeviceNormPiece* pieces, int count,
                                        std::int64_t block, int column) {
  OwnSums sums;
  const std::int64_t begin = block * kNormBlock;
  for (int at = piece_at(pieces, count, begin);
       at < count && pieces[at].begin < begin + kNormBlock; ++at) {
    const DeviceNormPiece piece = pieces[at];
    if (piece.dtype == DType::fp32) {
      add_piece<DType::fp32>(piece, begin, column, sums);
    } else if (piece.dtype == DType::bf16) {
      add_piece<DType::bf16>(piece, begin, column, sums);
    } else {
      add_piece<DType::fp16>(piece, begin, column, sums);
    }
  }
  return sums;
}

}  // namespace zeroshard::device_code

extern "C" __global__ void __launch_bounds__(zeroshard::kChunkThreads)
    zs_norm_blocks(const zeroshard::DeviceNormPiece* pieces, int count, std::int64_t blocks,
                   double* block_sums) {
  using namespace zeroshard::device_code;
  const std::int64_t thread = blockIdx.x * std::int64_t{zeroshard::kChunkThreads} + threadIdx.x;
  const std::int64_t block = thread / kThreadsInBlock;
  const int place = static_cast<int>(threadIdx.x) % kThreadsInBlock;
  OwnSums sums;
  if (block < blocks) sums = sums_of_block(pieces, count, block, place * kOwnSums);
  double sum = 0.0;
#pragma unroll
  for (int other = 0; other < kThreadsInBlock; ++other) {
#pragma unroll
    for (int k = 0; k < kOwnSums; ++k) {
      sum += __shfl_sync(0xFFFFFFFFU, sums.squares[k].sum, other, kThreadsInBlock);
    }
  }
  if (block < blocks && place == 0) block_sums[block] = sum;
}

// One block of threads per batch: all fetch, one adds in order.
extern "C" __global__ void __launch_bounds__(zeroshard::kChunkThreads)
    zs_norm_batches(const zeroshard::DeviceNormBatch* batches, const double* block_sums,
                    double* batch_sums) {
  __shared__ double sums[zeroshard::kBlocksInBatch];
  const zeroshard::DeviceNormBatch batch = batches[blockIdx.x];
  for (std::int64_t i = threadIdx.x; i < batch.blocks; i += zeroshard::kChunkThreads) {
    sums[i] = block_sums[batch.first_block + i];
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sum = 0.0;
  const int blocks = static_cast<int>(batch.blocks);
#pragma unroll 16
  for (int i = 0; i < blocks; ++i) sum += sums[i];
  batch_sums[blockIdx.x] = sum;
}
