// Conversions and sums of whole arrays: base/half.h's bits in every instruction set.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/numeric/float_array.h"
#include "zeroshard/numeric/convert.h"

namespace zeroshard {
namespace {

using testing::FloatArray;
using testing::kFloats;
using testing::Random;
using testing::random_array;

TEST(Convert, EveryPairOfDtypesInEveryIsa) {
  Random random(51);
  ThreadPool alone(1), three(3);
  for (const DType to : kFloats) {
    for (const DType from : kFloats) {
      for (const std::int64_t count : {0, 1, 7, 8, 9, 16, 31, 100, 140'001}) {
        const FloatArray source = random_array(random, from, count);
        FloatArray expected(to, count);
        for (std::int64_t i = 0; i < count; ++i) expected.set(i, source.get(i));
        if (to == from) expected = source;
        for (const Isa isa : available_isas()) {
          FloatArray result(to, count);
          ThreadPool& pool = isa == best_isa() ? three : alone;
          convert({result.bytes.data(), to}, {source.bytes.data(), from}, count, pool, isa);
          EXPECT_EQ(result.bytes, expected.bytes)
              << name_of(from) << " to " << name_of(to) << ", " << name_of(isa) << ", " << count;
        }
      }
    }
  }
}

TEST(Convert, All16BitPatternsThereAndBack) {
  ThreadPool pool(1);
  std::vector<std::uint16_t> all(1 << 16), back(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(all.size());
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const Isa isa : available_isas()) {
      convert({wide.data()}, {all.data(), dtype}, 1 << 16, pool, isa);
      convert({back.data(), dtype}, {wide.data()}, 1 << 16, pool, isa);
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_TRUE(std::isnan(wide[i]) || back[i] == all[i]) << name_of(dtype) << ", " << i;
      }
    }
  }
}

TEST(Accumulate, AddsInFp32AndRoundsOnce) {
  Random random(52);
  ThreadPool alone(1), three(3);
  for (const DType to : kFloats) {
    for (const DType from : kFloats) {
      for (const std::int64_t count : {0, 1, 15, 33, 140'001}) {
        const FloatArray addend = random_array(random, from, count);
        const FloatArray start = random_array(random, to, count);
        FloatArray expected = start;
        for (std::int64_t i = 0; i < count; ++i) {
          const float sum = start.get(i) + addend.get(i);
          expected.set(i, std::isnan(sum) ? std::nanf("") : sum);
        }
        for (const Isa isa : available_isas()) {
          FloatArray result = start;
          ThreadPool& pool = isa == best_isa() ? three : alone;
          accumulate({result.bytes.data(), to}, {addend.bytes.data(), from}, count, pool, isa);
          EXPECT_EQ(result.bytes, expected.bytes)
              << name_of(from) << " into " << name_of(to) << ", " << name_of(isa) << ", " << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeroshard
