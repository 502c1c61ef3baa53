#include <thread>

#include <gtest/gtest.h>

#include "zeroshard/base/rank.h"

namespace zeroshard {
namespace {

TEST(Rank, ScopesNestAndEnd) {
  const int outside = current_rank();
  {
    RankScope outer(3);
    EXPECT_EQ(current_rank(), 3);
    {
      RankScope inner(7);
      EXPECT_EQ(current_rank(), 7);
    }
    EXPECT_EQ(current_rank(), 3);
  }
  EXPECT_EQ(current_rank(), outside);
}

TEST(Rank, ScopeEndsWhenAnExceptionPasses) {
  const int outside = current_rank();
  try {
    RankScope scope(9);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(current_rank(), outside);
}

TEST(Rank, BelongsToTheThread) {
  const int outside = current_rank();
  RankScope scope(4);
  int seen_before = -1, seen_inside = -1;
  std::thread([&] {
    seen_before = current_rank();
    RankScope other(6);
    seen_inside = current_rank();
  }).join();
  EXPECT_EQ(seen_before, outside);
  EXPECT_EQ(seen_inside, 6);
  EXPECT_EQ(current_rank(), 4);
}

}  // namespace
}  // namespace zeroshard
