#include "zeroshard/optim/sum_of_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "zeroshard/base/check.h"
#include "zeroshard/numeric/float_environment.h"
#include "zeroshard/optim/kernels.h"

namespace zeroshard {
namespace {

// 64 Ki elements to a thread at least.
constexpr std::int64_t kGrainBlocks = 16;

}  // namespace

double sum_of_squares(const void* data, DType dtype, std::int64_t count, ThreadPool& pool,
                      Isa isa) {
  ZS_CHECK(dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16, "norm of {}",
           name_of(dtype));
  ZS_CHECK_GE(count, 0, "norm of a span");
  const FloatEnvironment environment(FloatEnvironment::Subnormals::zero);
  const auto block_sum = kernels_of(isa).sum_of_squares[static_cast<int>(dtype)];
  const std::int64_t blocks = norm_blocks(count);
  std::vector<double> sums(static_cast<std::size_t>(std::min(blocks, kBlocksInBatch)));
  double total = 0.0;
  for (std::int64_t first = 0; first < blocks; first += kBlocksInBatch) {
    const std::int64_t now = std::min(kBlocksInBatch, blocks - first);
    pool.parallel_for(now, kGrainBlocks, [&](std::int64_t begin, std::int64_t end) {
      const FloatEnvironment its_own(FloatEnvironment::Subnormals::zero);
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t at = (first + block) * kNormBlock;
        sums[static_cast<std::size_t>(block)] =
            block_sum(static_cast<const char*>(data) + at * bytes_of(dtype),
                      std::min(kNormBlock, count - at));
      }
    });
    double batch = 0.0;
    for (std::int64_t block = 0; block < now; ++block) {
      batch += sums[static_cast<std::size_t>(block)];
    }
    total += batch;
  }
  return std::isnan(total) ? std::numeric_limits<double>::quiet_NaN() : total;
}

}  // namespace zeroshard
