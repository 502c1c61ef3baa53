#include "zeroshard/optim/sum_of_squares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "zeroshard/base/check.h"
#include "zeroshard/numeric/float_environment.h"
#include "zeroshard/optim/kernels.h"

namespace zeroshard {
namespace {

// 64 Ki elements to a thread at least.
constexpr std::int64_t kGrainBlocks = 16;

// A block's elements: where they lie, or put together in `room` where they are in several pieces.
class BlockReader {
 public:
  explicit BlockReader(const NormSpan& span)
      : span_(span), size_(span.pieces.empty() ? 4 : bytes_of(span.pieces.front().dtype)) {}

  const void* read(std::int64_t begin, std::int64_t end, std::vector<std::byte>& room) const {
    auto piece = first_after(begin);
    const bool whole =
        piece != span_.pieces.end() && piece->offset <= begin && end <= end_of(*piece);
    if (whole) return at(*piece, begin);
    room.assign(static_cast<std::size_t>((end - begin) * size_), std::byte{0});
    for (; piece != span_.pieces.end() && piece->offset < end; ++piece) {
      const std::int64_t from = std::max(begin, piece->offset), to = std::min(end, end_of(*piece));
      std::memcpy(room.data() + (from - begin) * size_, at(*piece, from),
                  static_cast<std::size_t>((to - from) * size_));
    }
    return room.data();
  }

 private:
  static std::int64_t end_of(const NormPiece& piece) { return piece.offset + piece.count; }
  const std::byte* at(const NormPiece& piece, std::int64_t element) const {
    return static_cast<const std::byte*>(piece.data) + (element - piece.offset) * size_;
  }
  // The first piece that ends behind the element.
  std::vector<NormPiece>::const_iterator first_after(std::int64_t element) const {
    return std::ranges::upper_bound(span_.pieces, element, {}, end_of);
  }

  const NormSpan& span_;
  const std::int64_t size_;
};

}  // namespace

double sum_of_squares(const void* data, DType dtype, std::int64_t count, ThreadPool& pool,
                      Isa isa) {
  return sum_of_squares({.pieces = {{data, dtype, count, 0}}, .count = count}, pool, isa);
}

double sum_of_squares(const NormSpan& span, ThreadPool& pool, Isa isa) {
  const DType dtype = span.pieces.empty() ? DType::fp32 : span.pieces.front().dtype;
  ZS_CHECK(dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16, "norm of {}",
           name_of(dtype));
  ZS_CHECK_GE(span.count, 0, "norm of a span");
  const FloatEnvironment environment(FloatEnvironment::Subnormals::zero);
  const auto block_sum = kernels_of(isa).sum_of_squares[static_cast<int>(dtype)];
  const BlockReader reader(span);
  const std::int64_t blocks = norm_blocks(span.count);
  std::vector<double> sums(static_cast<std::size_t>(std::min(blocks, kBlocksInBatch)));
  double total = 0.0;
  for (std::int64_t first = 0; first < blocks; first += kBlocksInBatch) {
    const std::int64_t now = std::min(kBlocksInBatch, blocks - first);
    pool.parallel_for(now, kGrainBlocks, [&](std::int64_t begin, std::int64_t end) {
      const FloatEnvironment its_own(FloatEnvironment::Subnormals::zero);
      std::vector<std::byte> room;
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t at = (first + block) * kNormBlock;
        const std::int64_t until = std::min(at + kNormBlock, span.count);
        sums[static_cast<std::size_t>(block)] = block_sum(reader.read(at, until, room), until - at);
      }
    });
    total += std::accumulate(sums.begin(), sums.begin() + now, 0.0);
  }
  return std::isnan(total) ? std::numeric_limits<double>::quiet_NaN() : total;
}

}  // namespace zeroshard
