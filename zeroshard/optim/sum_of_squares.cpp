#include "zeroshard/optim/sum_of_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "zeroshard/base/check.h"
#include "zeroshard/optim/float_environment.h"
#include "zeroshard/optim/kernels.h"

namespace zeroshard {
namespace {

// Blocks summed before their sums are added up: 16 Mi elements with 32 KiB of sums, so that a span
// of any length needs no more memory.
constexpr std::int64_t kBlocksAtOnce = 4096;
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
  const std::int64_t blocks = (count + kNormBlock - 1) / kNormBlock;
  std::vector<double> sums(static_cast<std::size_t>(std::min(blocks, kBlocksAtOnce)));
  double total = 0.0;
  for (std::int64_t first = 0; first < blocks; first += kBlocksAtOnce) {
    const std::int64_t now = std::min(kBlocksAtOnce, blocks - first);
    pool.parallel_for(now, kGrainBlocks, [&](std::int64_t begin, std::int64_t end) {
      const FloatEnvironment its_own(FloatEnvironment::Subnormals::zero);
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t at = (first + block) * kNormBlock;
        sums[static_cast<std::size_t>(block)] =
            block_sum(static_cast<const char*>(data) + at * bytes_of(dtype),
                      std::min(kNormBlock, count - at));
      }
    });
    for (std::int64_t block = 0; block < now; ++block) {
      total += sums[static_cast<std::size_t>(block)];
    }
  }
  return std::isnan(total) ? std::numeric_limits<double>::quiet_NaN() : total;
}

}  // namespace zeroshard
