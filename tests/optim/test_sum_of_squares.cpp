// The norm's kernel: its order of summation, its independence of threads and instruction sets.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/optim/optim_support.h"
#include "zeroshard/optim/sum_of_squares.h"

namespace zeroshard {
namespace {

using testing::Random;
using testing::States;

const void* data_of(const States& states) {
  return states.gradient_dtype == DType::fp32 ? static_cast<const void*>(states.gradient32.data())
                                              : static_cast<const void*>(states.gradient16.data());
}

double sum_of(const States& states, ThreadPool& pool, Isa isa) {
  return sum_of_squares(data_of(states), states.gradient_dtype, states.count(), pool, isa);
}

// The definition, literally: blocks of 4096 from the start; in a block element i goes to sum i
// modulo 16, the sums are added in order; then the blocks in order.
double defined_sum(const States& states) {
  double total = 0.0;
  const auto count = states.master.size();
  for (std::size_t begin = 0; begin < count; begin += 4096) {
    double sums[16] = {};
    for (std::size_t i = begin; i < std::min(begin + 4096, count); ++i) {
      const double value = states.gradient(i);
      sums[(i - begin) % 16] += value * value;
    }
    double block = 0.0;
    for (const double sum : sums) block += sum;
    total += block;
  }
  return total;
}

TEST(SumOfSquares, IsTheDefinedSumForEveryIsaAndThreadCount) {
  Random random(41);
  ThreadPool alone(1), three(3);
  for (const DType dtype : testing::kFloats) {
    for (const std::int64_t count : {0, 1, 15, 16, 17, 100, 4095, 4096, 4097, 8200, 140'003}) {
      const States states = plausible_states(random, count, dtype, DType::fp32);
      const double expected = defined_sum(states);
      for (const Isa isa : available_isas()) {
        EXPECT_EQ(sum_of(states, alone, isa), expected) << name_of(isa) << ", " << count;
        EXPECT_EQ(sum_of(states, three, isa), expected) << name_of(isa) << ", " << count;
      }
    }
  }
}

TEST(SumOfSquares, SpansLongerThanOneRoundOfBlocks) {
  const std::int64_t count = 4096 * 4096 + 5000;
  const std::vector<std::uint16_t> ones(static_cast<std::size_t>(count), 0x3F80);
  ThreadPool pool(2);
  EXPECT_EQ(sum_of_squares(ones.data(), DType::bf16, count, pool), static_cast<double>(count));
}

// A batch of 4096 blocks is summed by itself. The first batch is 2^108, next to which one block of
// the second, 2^54, is nothing; all of them together are not.
TEST(SumOfSquares, BatchesAreSummedByThemselves) {
  constexpr std::uint16_t kTwoTo54 = 0x5A80, kTwoTo27 = 0x4D00;  // bf16
  const std::int64_t batch = 4096 * 4096;
  std::vector<std::uint16_t> values(static_cast<std::size_t>(2 * batch), 0);
  for (std::size_t i = 0; i < values.size(); i += 4096) values[i] = kTwoTo27;
  values[0] = kTwoTo54;
  ThreadPool pool(2);
  const double first = sum_of_squares(values.data(), DType::bf16, batch, pool);
  const double second = sum_of_squares(values.data() + batch, DType::bf16, batch, pool);
  EXPECT_EQ(sum_of_squares(values.data(), DType::bf16, 2 * batch, pool), first + second);
  double one_by_one = first;
  for (int block = 0; block < 4096; ++block) one_by_one += 0x1p54;
  EXPECT_NE(one_by_one, first + second);
}

TEST(SumOfSquares, LargestNumbersDoNotOverflow) {
  const std::vector<float> large(10'000, std::numeric_limits<float>::max());
  ThreadPool pool(1);
  EXPECT_TRUE(std::isfinite(sum_of_squares(large.data(), DType::fp32, 10'000, pool)));
}

TEST(SumOfSquares, OneNonFiniteElementAnywhereShows) {
  Random random(42);
  ThreadPool pool(2);
  for (int i = 0; i < 100; ++i) {
    States states = plausible_states(random, random.between(1, 9000), random.dtype(), DType::fp32);
    const auto at = static_cast<std::size_t>(random.between(0, states.count() - 1));
    const bool nan = random.between(0, 1) == 1;
    const bool fp16 = states.gradient_dtype == DType::fp16;
    states.gradient32[at] =
        nan ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
    states.gradient16[at] = fp16 ? (nan ? 0xFE01 : 0xFC00) : (nan ? 0xFFC1 : 0xFF80);
    const double expected = sum_of(states, pool, Isa::scalar);
    EXPECT_EQ(std::isnan(expected), nan);
    EXPECT_EQ(std::isinf(expected), !nan);
    for (const Isa isa : available_isas()) {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(sum_of(states, pool, isa)),
                std::bit_cast<std::uint64_t>(expected));
    }
  }
}

}  // namespace
}  // namespace zeroshard
