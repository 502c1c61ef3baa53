// Masters in two halves give every pattern back, and round to the parameter that they came from.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/numeric/master_patterns.h"
#include "tests/optim/optim_support.h"
#include "zeroshard/numeric/convert.h"
#include "zeroshard/numeric/masters.h"

namespace zeroshard {
namespace {

using testing::MasterPatterns;
using testing::Random;
using testing::same_bits;

// Each of all 2^32.
TEST(Masters, EveryPatternThereAndBack) {
  ThreadPool pool(1);
  constexpr std::int64_t kCount = MasterPatterns::kCount;
  std::vector<std::uint16_t> parameter(kCount), low(kCount), nearest_even(kCount);
  std::vector<float> back(kCount);
  MasterPatterns all;
  std::int64_t ties = 0;
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    all.set_upper(upper);
    const MasterHalves halves{parameter.data(), low.data()};
    const std::int64_t moved = halve_masters(kCpu, halves, all.masters.data(), kCount);
    ASSERT_EQ(moved, all.ties) << upper;
    ties += moved;
    join_masters(kCpu, back.data(), halves, kCount);
    ASSERT_TRUE(same_bits(back, all.settled)) << upper;
    convert({nearest_even.data(), DType::bf16}, {back.data()}, kCount, pool);
    ASSERT_TRUE(same_bits(parameter, nearest_even)) << upper;
    if (moved == 0) continue;  // with NaNs of its own kinds, perhaps
    convert({nearest_even.data(), DType::bf16}, {all.masters.data()}, kCount, pool);
    ASSERT_TRUE(same_bits(parameter, nearest_even)) << upper << ": a tie left its parameter";
  }
  EXPECT_EQ(ties, 0x7F80);  // one for each even upper half of a finite number
}

TEST(Masters, SettledWhereTheyAre) {
  for (const std::uint32_t upper : {0U, 1U, 0x3F80U, 0x7F7FU, 0x7F80U, 0x7FC0U, 0xBF80U, 0xFF80U}) {
    MasterPatterns all;
    all.set_upper(upper);
    EXPECT_EQ(settle_masters(kCpu, all.masters.data(), MasterPatterns::kCount), all.ties);
    EXPECT_TRUE(same_bits(all.masters, all.settled)) << upper;
    EXPECT_EQ(settle_masters(kCpu, all.masters.data(), MasterPatterns::kCount), 0);
  }
  EXPECT_EQ(settle_masters(kCpu, nullptr, 0), 0);
}

// What somebody writes is the master from then on; a zero of the other sign and a NaN count too.
TEST(Masters, LowHalvesOfWrittenParametersAreForgotten) {
  Random random(71);
  const std::vector<std::uint16_t> before{0x3F80, 0x0000, 0x7FC0, 0xC123, 0x7F80};
  std::vector<std::uint16_t> parameter{0x3F80, 0x8000, 0x7FC0, 0xC124, 0x7F80};
  std::vector<std::uint16_t> low{0x1234, 0x0042, 0x0000, 0xFFFF, 0xFFFF};
  forget_low_halves(kCpu, {parameter.data(), low.data()}, before.data(), 5);
  EXPECT_EQ(low, (std::vector<std::uint16_t>{0x1234, 0, 0, 0, 0xFFFF}));
  std::vector<float> masters(5);
  join_masters(kCpu, masters.data(), {parameter.data(), low.data()}, 5);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(masters[1]), 0x80000000U);
  EXPECT_TRUE(std::isnan(masters[2]));
  EXPECT_EQ(masters[3], bf16_to_fp32(0xC124));
  EXPECT_EQ(masters[4], 3.40282347e38F);  // a finite number that rounds to infinity
}

}  // namespace
}  // namespace zeroshard
