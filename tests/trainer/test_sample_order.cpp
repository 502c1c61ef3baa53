// The shuffle: a permutation always, and random enough for every use of it.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/trainer/sample_order.h"

namespace zeroshard {
namespace {

using Order = std::vector<std::int64_t>;

Order order_of(std::int64_t size, Shuffle shuffle) {
  const SampleOrder order(size, shuffle);
  Order samples;
  for (std::int64_t position = 0; position < size; ++position) {
    samples.push_back(order.sample_at(position));
  }
  return samples;
}

bool is_permutation_of_all(const Order& order) {
  std::vector<bool> seen(order.size(), false);
  for (const std::int64_t sample : order) {
    if (sample < 0 || sample >= std::int64_t(order.size()) || seen[std::size_t(sample)]) {
      return false;
    }
    seen[std::size_t(sample)] = true;
  }
  return true;
}

TEST(SampleOrder, IsAPermutationOfEverySizeUpToAThousand) {
  for (std::int64_t size = 1; size <= 1000; ++size) {
    for (std::uint64_t seed : {0ULL, 42ULL, ~0ULL}) {
      ASSERT_TRUE(is_permutation_of_all(order_of(size, {seed, 0}))) << size << ", seed " << seed;
    }
  }
}

TEST(SampleOrder, IsAPermutationOfLargeSizes) {
  for (const std::int64_t size : {65536, 65537, 99991, 1000000, 1024 * 1024 + 1}) {
    EXPECT_TRUE(is_permutation_of_all(order_of(size, {7, 3}))) << size;
  }
}

// Too large to list: different positions stay different, and samples stay in range.
TEST(SampleOrder, StaysInRangeAtTheLargestSizes) {
  for (const std::int64_t size : {(std::int64_t{1} << 62), (std::int64_t{1} << 62) - 1,
                                  (std::int64_t{3037000499} * 1000000007), std::int64_t{1} << 40}) {
    const SampleOrder order(size, {1, 1});
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < 2000; ++i) {
      for (const std::int64_t position : {i, size - 1 - i}) {
        const std::int64_t sample = order.sample_at(position);
        ASSERT_TRUE(sample >= 0 && sample < size) << size << ": " << sample;
        seen.insert(sample);
      }
    }
    EXPECT_EQ(seen.size(), 4000U);
    EXPECT_GT(*seen.rbegin() - *seen.begin(), size - size / 100) << "spread over all";
  }
}

TEST(SampleOrder, EpochsAndSeedsDiffer) {
  std::set<Order> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) orders.insert(order_of(50, {seed, epoch}));
  }
  EXPECT_EQ(orders.size(), 400U);
}

TEST(SampleOrder, TheSameShuffleGivesTheSameOrder) {
  EXPECT_EQ(order_of(1000, {3, 4}), order_of(1000, {3, 4}));
  // Checkpoints rely on it: an order that changes between versions is a break.
  EXPECT_EQ(order_of(10, {42, 0}), (Order{4, 1, 5, 3, 6, 2, 8, 9, 7, 0}));
}

// A random permutation moves an element by a third of the size on average.
TEST(SampleOrder, LooksShuffled) {
  for (const std::int64_t size : {100, 1000, 12345, 100000}) {
    const Order order = order_of(size, {5, 0});
    double moved = 0, product = 0;
    std::int64_t rising = 0, neighbours = 0;
    const double middle = double(size - 1) / 2;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t sample = order[std::size_t(i)];
      moved += double(std::abs(sample - i)) / double(size);
      product += (double(sample) - middle) * (double(i) - middle);
      if (i + 1 == size) continue;
      rising += order[std::size_t(i) + 1] > sample ? 1 : 0;
      neighbours += std::abs(order[std::size_t(i) + 1] - sample) == 1 ? 1 : 0;
    }
    const double deviation = 1.0 / std::sqrt(double(size));
    EXPECT_NEAR(moved / double(size), 1.0 / 3, 1.5 * deviation) << size;
    EXPECT_NEAR(double(rising) / double(size), 0.5, 2.0 * deviation) << size;
    const double variance = (double(size) * double(size) - 1) / 12;
    EXPECT_NEAR(product / double(size) / variance, 0, 4.0 * deviation) << size;
    EXPECT_LE(neighbours, 12) << size;  // expected: 2
  }
}

// Over many seeds every sample comes to every position equally often, in small sets too.
TEST(SampleOrder, EverySampleReachesEveryPositionEquallyOften) {
  constexpr int kSeeds = 20000;
  for (const std::int64_t size : {2, 3, 4, 5, 7, 10, 16, 17}) {
    std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const Order order = order_of(size, {seed, 0});
      for (std::int64_t i = 0; i < size; ++i) ++counts[{i, order[std::size_t(i)]}];
    }
    ASSERT_EQ(std::int64_t(counts.size()), size * size);
    const double share = 1.0 / double(size);
    const double deviation = std::sqrt(kSeeds * share * (1 - share));
    for (const auto& [cell, count] : counts) {
      EXPECT_NEAR(count, kSeeds * share, 5 * deviation)
          << size << ": " << cell.first << " -> " << cell.second;
    }
  }
}

// All 6 orders of three and all 24 of four come up about equally often.
TEST(SampleOrder, SmallSetsHaveAllTheirOrders) {
  constexpr int kSeeds = 24000;
  for (const auto& [size, orders] : {std::pair{3, 6}, std::pair{4, 24}}) {
    std::map<Order, int> counts;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) ++counts[order_of(size, {seed, 1})];
    ASSERT_EQ(int(counts.size()), orders);
    for (const auto& [order, count] : counts) {
      EXPECT_NEAR(count, kSeeds / orders, 0.15 * kSeeds / orders);
    }
  }
}

TEST(SampleOrder, PositionsOutOfRangeAreInvariants) {
  EXPECT_THROW(SampleOrder(0, {}), InvariantError);
  EXPECT_THROW(SampleOrder(5, {}).sample_at(5), InvariantError);
  EXPECT_THROW(SampleOrder(5, {}).sample_at(-1), InvariantError);
}

}  // namespace
}  // namespace zeroshard
