// Property: from any N ranks to any M, every element arrives exactly once where it belongs. Checked
// by value: each element says which parameter it is of and where in it.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/layout/random_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/reshard.h"

namespace zeroshard {
namespace {

using Shard = std::vector<std::int64_t>;

constexpr std::int64_t kPadding = -1;
constexpr std::int64_t kNotWritten = -2;

std::int64_t value_of(std::size_t parameter, std::int64_t index) {
  return static_cast<std::int64_t>(parameter) * 1'000'000 + index;
}

// A flat group of encoded values cut into shards, by the layout rules and not by FlatLayout.
std::vector<Shard> encoded_shards(const std::vector<std::int64_t>& numels, std::size_t ranks) {
  Shard flat;
  for (std::size_t p = 0; p < numels.size(); ++p) {
    while (flat.size() % 64 != 0) flat.push_back(kPadding);
    for (std::int64_t i = 0; i < numels[p]; ++i) flat.push_back(value_of(p, i));
  }
  while (flat.size() % (64 * ranks) != 0) flat.push_back(kPadding);
  std::vector<Shard> shards;
  const auto shard_numel = static_cast<std::ptrdiff_t>(flat.size() / ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(r) * shard_numel;
    shards.emplace_back(begin, begin + shard_numel);
  }
  return shards;
}

void apply(const ReshardPiece& piece, const std::vector<Shard>& sources, Shard& destination) {
  const Shard& source = sources.at(static_cast<std::size_t>(piece.source_rank));
  for (std::int64_t k = 0; k < piece.within_parameter.size(); ++k) {
    const std::int64_t value = source.at(static_cast<std::size_t>(piece.source_offset + k));
    ASSERT_EQ(value, value_of(piece.parameter, piece.within_parameter.begin() + k));
    std::int64_t& slot = destination.at(static_cast<std::size_t>(piece.destination_offset + k));
    ASSERT_EQ(slot, kNotWritten) << "written twice";
    slot = value;
  }
}

void check_reshard(const std::vector<std::int64_t>& numels, int from, int to) {
  const FlatLayout source(numels, from);
  const FlatLayout destination(numels, to);
  const std::vector<Shard> sources = encoded_shards(numels, static_cast<std::size_t>(from));
  const std::vector<Shard> expected = encoded_shards(numels, static_cast<std::size_t>(to));
  for (int rank = 0; rank < to; ++rank) {
    Shard arrived(static_cast<std::size_t>(destination.shard_numel()), kNotWritten);
    std::int64_t previous = -1;
    for (const ReshardPiece& piece : reshard(source, destination, rank)) {
      ASSERT_FALSE(piece.within_parameter.empty());
      ASSERT_GT(piece.destination_offset, previous);
      previous = piece.destination_offset;
      ASSERT_NO_FATAL_FAILURE(apply(piece, sources, arrived));
    }
    std::replace(arrived.begin(), arrived.end(), kNotWritten, kPadding);
    ASSERT_EQ(arrived, expected[static_cast<std::size_t>(rank)]) << "rank " << rank;
  }
}

TEST(Reshard, AnyRankCountToAnyOther) {
  testing::for_each_case(250, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const std::vector<std::int64_t> numels = testing::random_numels(random, 9000);
    const int from = random.world_size();
    const int to = random.world_size();
    SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
    ASSERT_NO_FATAL_FAILURE(check_reshard(numels, from, to));
  });
}

TEST(Reshard, EveryPairOfSmallRankCounts) {
  const std::vector<std::int64_t> numels = {1, 0, 1021, 64, 5000, 2, 63, 0, 129};
  for (int from = 1; from <= 16; ++from) {
    for (int to = 1; to <= 16; ++to) {
      SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
      ASSERT_NO_FATAL_FAILURE(check_reshard(numels, from, to));
    }
  }
}

TEST(Reshard, ToTheSameRankCountReadsTheOwnShard) {
  const FlatLayout layout({1000, 77, 5}, 3);
  for (int rank = 0; rank < 3; ++rank) {
    for (const ReshardPiece& piece : reshard(layout, layout, rank)) {
      EXPECT_EQ(piece.source_rank, rank);
      EXPECT_EQ(piece.source_offset, piece.destination_offset);
    }
  }
}

TEST(Reshard, TwoRanksToOne) {
  const FlatLayout two({100, 100}, 2);  // at 0 and 128, shards of 128
  const FlatLayout one({100, 100}, 1);
  EXPECT_EQ(reshard(two, one, 0),
            (std::vector<ReshardPiece>{{0, Span(0, 100), 0, 0, 0}, {1, Span(0, 100), 1, 0, 128}}));
}

TEST(Reshard, HugeParametersNeedNoMemory) {
  const std::vector<std::int64_t> numels = {7'000'000'000'000, 3, 900'000'000'001};
  const FlatLayout source(numels, 48);
  const FlatLayout destination(numels, 64);
  std::int64_t total = 0;
  for (int rank = 0; rank < 64; ++rank) {
    for (const ReshardPiece& piece : reshard(source, destination, rank)) {
      total += piece.within_parameter.size();
    }
  }
  EXPECT_EQ(total, 7'900'000'000'004);
}

TEST(Reshard, OfNothing) {
  EXPECT_TRUE(reshard(FlatLayout({}, 2), FlatLayout({}, 3), 2).empty());
  EXPECT_TRUE(reshard(FlatLayout({0, 0}, 2), FlatLayout({0, 0}, 3), 0).empty());
}

TEST(Reshard, RefusesOtherParameters) {
  const FlatLayout layout({10, 20}, 2);
  EXPECT_THROW(reshard(layout, FlatLayout({10}, 2), 0), InvariantError);
  EXPECT_THROW(reshard(layout, FlatLayout({10, 21}, 2), 0), InvariantError);
  EXPECT_THROW(reshard(layout, FlatLayout({20, 10}, 2), 0), InvariantError);
  EXPECT_THROW(reshard(layout, FlatLayout({10, 20}, 4), 4), InvariantError);
}

}  // namespace
}  // namespace zeroshard
