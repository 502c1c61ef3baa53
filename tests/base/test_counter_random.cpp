#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/counter_random.h"

namespace zeroshard {
namespace {

constexpr int kCount = 200'000;

TEST(CounterRandom, DependsOnNameElementAndSeedAlone) {
  const CounterRandom random("a.weight", 1);
  EXPECT_EQ(random.uniform(5), CounterRandom("a.weight", 1).uniform(5));
  EXPECT_NE(random.uniform(5), random.uniform(6));
  EXPECT_NE(random.uniform(5), CounterRandom("b.weight", 1).uniform(5));
  EXPECT_NE(random.uniform(5), CounterRandom("a.weight", 2).uniform(5));
}

// Within five deviations of what independent numbers give.
TEST(CounterRandom, UniformNumbersAreUniform) {
  const CounterRandom random("a", 0);
  std::vector<int> bins(16);
  for (int i = 0; i < kCount; ++i) {
    const double value = random.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    ++bins[static_cast<std::size_t>(value * 16)];
  }
  const double expected = kCount / 16.0;
  for (const int bin : bins) EXPECT_NEAR(bin, expected, 5 * std::sqrt(expected));
}

TEST(CounterRandom, NormalNumbersHaveTheirMoments) {
  const CounterRandom random("b", 7);
  double sum = 0, squares = 0, products = 0, before = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.normal(static_cast<std::uint64_t>(i));
    sum += value;
    squares += value * value;
    products += value * before;  // neighbours are independent
    before = value;
  }
  const double error = 1 / std::sqrt(double{kCount});
  EXPECT_NEAR(sum / kCount, 0, 5 * error);
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2) * error);
  EXPECT_NEAR(products / kCount, 0, 5 * error);
}

}  // namespace
}  // namespace zeroshard
