// Writes of whole arrays on the host: the definition of arrays.h, element by element.
#include <gtest/gtest.h>

#include "tests/numeric/array_writes.h"
#include "zeroshard/numeric/chunks.h"

namespace zeroshard {
namespace {

using testing::Random;
using testing::WriteCase;

TEST(WriteArrays, IsWhatItSays) {
  Random random(61);
  for (int i = 0; i < 3000; ++i) {
    const std::int64_t count = random.between(0, 70);
    WriteCase one = i % 3 == 0 ? plain_write(random, count) : random_write(random, count);
    const bool has_from = random.between(0, 5) > 0;
    const testing::FloatArray expected = expected_result(one, has_from);
    write_arrays(kCpu,
                 {placed_at(one, one.to.bytes.data(), has_from ? one.from.bytes.data() : nullptr)});
    ASSERT_EQ(difference(one.to, expected), "") << "case " << i;
  }
}

TEST(WriteArrays, SeveralAtOnceAndNone) {
  Random random(62);
  std::vector<WriteCase> all;
  for (int i = 0; i < 40; ++i) all.push_back(random_write(random, random.between(0, 300)));
  std::vector<ArrayWrite> writes;
  std::vector<testing::FloatArray> expected;
  for (WriteCase& one : all) {
    expected.push_back(expected_result(one, true));
    writes.push_back(placed_at(one, one.to.bytes.data(), one.from.bytes.data()));
  }
  write_arrays(kCpu, writes);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(difference(all[i].to, expected[i]), "");
  write_arrays(kCpu, {});
}

// torch keeps them too, unless it is told otherwise.
TEST(WriteArrays, SubnormalsAreKept) {
  const std::vector<float> from = {0x1p-130F, -0x1p-149F, 0x1p-126F};
  std::vector<float> to(3, 0.0F);
  write_arrays(kCpu, {{.to = to.data(), .from = from.data(), .count = 3, .factor1 = 0.5F}});
  EXPECT_EQ(to, (std::vector<float>{0x1p-131F, -0.0F, 0x1p-127F}));
  write_arrays(kCpu, {{.to = to.data(), .from = from.data(), .count = 3, .adds = true}});
  EXPECT_EQ(to[0], 0x1p-130F + 0x1p-131F);
}

TEST(Chunks, CoverEveryElementOnce) {
  const auto cut = [](std::int64_t count, std::uintptr_t a, std::uintptr_t b) {
    return cut_arrays(count, 7,
                      {{reinterpret_cast<const void*>(a), DType::fp32},
                       {reinterpret_cast<const void*>(b), DType::bf16},
                       {nullptr, DType::fp32}});
  };
  EXPECT_TRUE(cut(100, 4096, 8192).by_fours);
  EXPECT_EQ(cut(100, 4096, 8192).head, 0);
  EXPECT_EQ(cut(100, 4096 + 4, 8192 + 2).head, 3);
  EXPECT_EQ(cut(2, 4096 + 4, 8192 + 2).head, 2);
  EXPECT_FALSE(cut(100, 4096 + 4, 8192).by_fours);
  EXPECT_FALSE(cut(100, 4096, 8192 + 4).by_fours);
  EXPECT_EQ(end_chunk(cut(1, 4096, 8192)), 8);
  EXPECT_EQ(end_chunk(cut(kChunk, 4096, 8192)), 8);
  EXPECT_EQ(end_chunk(cut(kChunk + 1, 4096, 8192)), 9);
  EXPECT_EQ(end_chunk(cut(kChunk + 1, 4096 + 12, 8192 + 6)), 8);  // one of them is the head
}

}  // namespace
}  // namespace zeroshard
