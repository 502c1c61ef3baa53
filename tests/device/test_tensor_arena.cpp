// Pieces never overlap, gaps are used before the arena grows, and a step that is repeated finds its
// old places.
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/device/memory_count.h"
#include "zeroshard/device/tensor_arena.h"

namespace zeroshard {
namespace {

struct Taken {
  void* data;
  std::int64_t bytes;
};

void expect_apart(const std::vector<Taken>& pieces) {
  std::map<std::byte*, std::int64_t> by_address;
  for (const Taken& piece : pieces) {
    by_address[static_cast<std::byte*>(piece.data)] = piece.bytes;
  }
  ASSERT_EQ(by_address.size(), pieces.size());
  const std::byte* end = nullptr;
  for (const auto& [begin, bytes] : by_address) {
    ASSERT_LE(end, begin);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(begin) % 64, 0U);
    end = begin + bytes;
  }
}

TEST(TensorArena, PiecesOfAnyOrderNeverOverlapAndAllOfItComesBack) {
  std::mt19937 random(5);
  TensorArena arena(512 * kMiB);
  std::vector<Taken> pieces;
  for (int step = 0; step < 3000; ++step) {
    if (pieces.empty() || random() % 2 == 0) {
      const std::int64_t bytes = 1 + static_cast<std::int64_t>(random() % (2 * kMiB));
      void* const data = arena.take(bytes);
      ASSERT_NE(data, nullptr);
      ASSERT_TRUE(arena.owns(data));
      ASSERT_GE(arena.bytes_of(data), bytes);
      static_cast<char*>(data)[0] = static_cast<char*>(data)[bytes - 1] = 1;
      pieces.push_back({data, bytes});
    } else {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      arena.give_back(pieces.back().data);
      pieces.pop_back();
    }
    if (step % 50 == 0) expect_apart(pieces);
  }
  for (const Taken& piece : pieces) arena.give_back(piece.data);
  const std::int64_t extent = arena.extent();
  EXPECT_NE(arena.take(extent), nullptr);
  EXPECT_EQ(arena.extent(), extent) << "all of it is one gap again";
}

// What a model's forward keeps and its backward gives up, with something temporary in between.
TEST(TensorArena, HoldsNoMoreThanItsTensorsAtMost) {
  TensorArena arena(512 * kMiB);
  std::int64_t extent = 0;
  for (int step = 0; step < 3; ++step) {
    std::vector<void*> kept;
    for (int layer = 0; layer < 20; ++layer) {
      void* const temporary = arena.take(3 * kMiB);
      kept.push_back(arena.take(2 * kMiB));
      arena.give_back(temporary);
    }
    for (; !kept.empty(); kept.pop_back()) {
      void* const temporary = arena.take(3 * kMiB);
      arena.give_back(kept.back());
      arena.give_back(temporary);
    }
    if (step == 0) extent = arena.extent();
  }
  EXPECT_EQ(arena.extent(), extent) << "every step like the first";
  EXPECT_LE(extent, (20 * 2 + 2 * 3) * kMiB);
}

TEST(TensorArena, WhatIsGivenBackIsThereUntilItIsTrimmed) {
  TensorArena arena(64 * kMiB);
  auto* const data = static_cast<unsigned char*>(arena.take(8 * kMiB));
  std::memset(data, 7, static_cast<std::size_t>(8 * kMiB));
  arena.give_back(data);
  EXPECT_EQ(data[4 * kMiB], 7);
  arena.trim();
  EXPECT_EQ(data[4 * kMiB], 0);
}

TEST(TensorArena, BeyondItsAddressesThereIsNothing) {
  TensorArena arena(4 * kMiB);
  EXPECT_EQ(arena.take(5 * kMiB), nullptr);
  void* const all = arena.take(4 * kMiB);
  EXPECT_NE(all, nullptr);
  EXPECT_EQ(arena.take(1), nullptr);
  arena.give_back(all);
  EXPECT_EQ(arena.take(4 * kMiB), all);
  EXPECT_THROW(arena.give_back(static_cast<char*>(all) + 64), InvariantError);
}

TEST(MemoryCount, KnowsNowAndAtMostAndItsLimit) {
  MemoryCount count;
  count.add(100);
  count.add(-30);
  EXPECT_EQ(count.use(), (MemoryUse{.now = 70, .peak = 100}));
  count.forget_peak();
  count.add(20);
  EXPECT_EQ(count.use(), (MemoryUse{.now = 90, .peak = 90}));
  EXPECT_TRUE(count.has_room_for(1'000'000));
  count.set_limit(100);
  EXPECT_TRUE(count.has_room_for(10));
  EXPECT_FALSE(count.has_room_for(11));
}

}  // namespace
}  // namespace zeroshard
