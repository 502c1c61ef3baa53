// Parts of an arena never overlap, fill it to the last byte, and leave one gap when all are back.
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/tier/host_arena.h"

namespace zeroshard {
namespace {

struct Taken {
  std::int64_t begin;
  std::int64_t bytes;
};

void expect_apart(const std::vector<Taken>& parts, std::int64_t arena_bytes) {
  std::map<std::int64_t, std::int64_t> by_begin;
  for (const Taken& part : parts) by_begin[part.begin] = part.bytes;
  ASSERT_EQ(by_begin.size(), parts.size());
  std::int64_t end = 0;
  for (const auto& [begin, bytes] : by_begin) {
    ASSERT_LE(end, begin);
    end = begin + bytes;
  }
  ASSERT_LE(end, arena_bytes);
}

TEST(HostArena, PartsThatAddUpFillIt) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> sizes;
    std::int64_t sum = 0;
    for (int i = 0; i < 40; ++i) {
      sizes.push_back(256 * (1 + static_cast<std::int64_t>(random() % 1000)));
      sum += sizes.back();
    }
    HostArena arena(sum);
    for (const std::int64_t bytes : sizes) ASSERT_TRUE(arena.take(bytes).has_value());
    EXPECT_EQ(arena.free_bytes(), 0);
    EXPECT_FALSE(arena.take(256).has_value());
  }
}

TEST(HostArena, RandomOrdersNeverOverlapAndLeaveNothingBehind) {
  constexpr std::int64_t kBytes = 256 * 5000;
  std::mt19937 random(4);
  HostArena arena(kBytes);
  std::vector<Taken> parts;
  for (int step = 0; step < 5000; ++step) {
    if (parts.empty() || random() % 2 == 0) {
      const std::int64_t bytes = 256 * (1 + static_cast<std::int64_t>(random() % 700));
      if (const auto begin = arena.take(bytes)) parts.push_back({*begin, bytes});
    } else {
      std::swap(parts[random() % parts.size()], parts.back());
      arena.give_back(parts.back().begin, parts.back().bytes);
      parts.pop_back();
    }
    if (step % 50 == 0) expect_apart(parts, kBytes);
  }
  for (const Taken& part : parts) arena.give_back(part.begin, part.bytes);
  EXPECT_EQ(arena.take(kBytes), 0) << "all of it is one gap again";
}

TEST(HostArena, APartThatIsGivenBackTwiceIsNoticed) {
  HostArena arena(1024);
  arena.take(1024);
  arena.give_back(256, 256);
  EXPECT_THROW(arena.give_back(0, 512), InvariantError);
}

}  // namespace
}  // namespace zeroshard
