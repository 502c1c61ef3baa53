// Property: every element of every parameter is owned exactly once, at aligned and equal shards.
#include <gtest/gtest.h>

#include "tests/layout/random_cases.h"
#include "zeroshard/layout/flat_layout.h"

namespace zeroshard {
namespace {

using testing::for_each_case;
using testing::Random;

// The rules once more, element by element: which parameter lies at each offset, -1 for padding.
std::vector<int> painted(const std::vector<std::int64_t>& numels, int world_size) {
  std::vector<int> elements;
  for (std::size_t i = 0; i < numels.size(); ++i) {
    while (elements.size() % 64 != 0) elements.push_back(-1);
    elements.insert(elements.end(), static_cast<std::size_t>(numels[i]), static_cast<int>(i));
  }
  while (elements.size() % (64 * static_cast<std::size_t>(world_size)) != 0) elements.push_back(-1);
  return elements;
}

TEST(Ownership, SpansAreWhereTheRulesPutThem) {
  for_each_case(300, [](Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const std::vector<std::int64_t> numels = testing::random_numels(random, 6000);
    const int world_size = random.world_size();
    const FlatLayout layout(numels, world_size);
    const std::vector<int> expected = painted(numels, world_size);
    ASSERT_EQ(layout.padded_numel(), static_cast<std::int64_t>(expected.size()));

    std::vector<int> actual(expected.size(), -1);
    for (std::size_t i = 0; i < numels.size(); ++i) {
      const Span span = layout.parameter_span(i);
      ASSERT_EQ(span.begin() % 64, 0);
      ASSERT_EQ(span.size(), numels[i]);
      for (std::int64_t at = span.begin(); at < span.end(); ++at) {
        ASSERT_EQ(actual[static_cast<std::size_t>(at)], -1) << "overlap at " << at;
        actual[static_cast<std::size_t>(at)] = static_cast<int>(i);
      }
    }
    ASSERT_EQ(actual, expected);
  });
}

TEST(Ownership, ShardsAreEqualAlignedAndCoverTheGroup) {
  for_each_case(500, [](Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const FlatLayout layout(testing::random_numels(random, 1'000'000'000'000), random.world_size());
    std::int64_t end = 0;
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const Span shard = layout.shard(rank);
      ASSERT_EQ(shard.begin(), end);
      ASSERT_EQ(shard.begin() % 64, 0);
      ASSERT_EQ(shard.size(), layout.shard(0).size());
      ASSERT_EQ(shard.size(), layout.shard_numel());
      end = shard.end();
      if (shard.empty()) continue;
      ASSERT_EQ(layout.owner_of(shard.begin()), rank);
      ASSERT_EQ(layout.owner_of(shard.end() - 1), rank);
    }
    ASSERT_EQ(end, layout.padded_numel());
    // No more padding than the rules ask for.
    const std::size_t last = layout.parameter_count();
    const std::int64_t used = last == 0 ? 0 : layout.parameter_span(last - 1).end();
    ASSERT_LT(layout.padded_numel() - used, 64 * layout.world_size());
  });
}

// Walks the shards' pieces and ticks off each parameter's elements.
TEST(Ownership, PiecesHoldEveryElementOnce) {
  for_each_case(250, [](Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const std::vector<std::int64_t> numels = testing::random_numels(random, 6000);
    const FlatLayout layout(numels, random.world_size());
    const std::vector<int> expected = painted(numels, layout.world_size());
    std::vector<std::vector<int>> times;
    for (const std::int64_t numel : numels) times.emplace_back(static_cast<std::size_t>(numel), 0);

    for (int rank = 0; rank < layout.world_size(); ++rank) {
      std::int64_t previous_end = 0;
      for (const ParameterPiece& piece : layout.pieces(rank)) {
        ASSERT_FALSE(piece.flat.empty());
        ASSERT_EQ(piece.flat.size(), piece.within_parameter.size());
        ASSERT_GE(piece.shard_offset, previous_end);
        ASSERT_EQ(piece, layout.piece(piece.parameter, rank));
        previous_end = piece.shard_offset + piece.flat.size();
        for (std::int64_t k = 0; k < piece.flat.size(); ++k) {
          const std::int64_t at = rank * layout.shard_numel() + piece.shard_offset + k;
          ASSERT_EQ(piece.flat.begin() + k, at);
          ASSERT_EQ(expected[static_cast<std::size_t>(at)], static_cast<int>(piece.parameter));
          ++times[piece.parameter][static_cast<std::size_t>(piece.within_parameter.begin() + k)];
        }
      }
      ASSERT_LE(previous_end, layout.shard_numel());
    }
    for (const auto& parameter : times) {
      for (const int count : parameter) ASSERT_EQ(count, 1);
    }
  });
}

// The same offsets for any rank count: only the tail's padding may differ.
TEST(Ownership, WorldSizeMovesNoParameter) {
  for_each_case(300, [](Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const std::vector<std::int64_t> numels = testing::random_numels(random, 1'000'000'000);
    const FlatLayout one(numels, 1);
    const FlatLayout many(numels, random.world_size());
    for (std::size_t i = 0; i < numels.size(); ++i) {
      ASSERT_EQ(one.parameter_span(i), many.parameter_span(i));
    }
  });
}

}  // namespace
}  // namespace zeroshard
