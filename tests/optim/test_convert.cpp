// Conversions and sums of whole arrays: base/half.h's bits in every instruction set.
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/optim/optim_support.h"
#include "zeroshard/numeric/convert.h"

namespace zeroshard {
namespace {

using testing::any_float;
using testing::kFloats;
using testing::Random;

// Elements of any of the dtypes, as bytes.
struct Array {
  DType dtype;
  std::vector<unsigned char> bytes;

  Array(DType of, std::int64_t count)
      : dtype(of), bytes(static_cast<std::size_t>(count * bytes_of(of)), 0xAB) {}

  float get(std::int64_t i) const {
    if (dtype == DType::fp32) return at<float>(i);
    const auto bits = at<std::uint16_t>(i);
    return dtype == DType::bf16 ? bf16_to_fp32(bits) : fp16_to_fp32(bits);
  }
  void set(std::int64_t i, float value) {
    if (dtype == DType::fp32) return put(i, value);
    put(i, dtype == DType::bf16 ? fp32_to_bf16(value) : fp32_to_fp16(value));
  }
  template <typename T>
  T at(std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T>
  void put(std::int64_t i, T value) {
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
};

Array random_array(Random& random, DType dtype, std::int64_t count) {
  Array array(dtype, count);
  for (auto& byte : array.bytes) byte = static_cast<unsigned char>(random.bits());
  for (std::int64_t i = 0; i < count; i += 3) array.set(i, any_float(random));
  return array;
}

TEST(Convert, EveryPairOfDtypesInEveryIsa) {
  Random random(51);
  ThreadPool alone(1), three(3);
  for (const DType to : kFloats) {
    for (const DType from : kFloats) {
      for (const std::int64_t count : {0, 1, 7, 8, 9, 16, 31, 100, 140'001}) {
        const Array source = random_array(random, from, count);
        Array expected(to, count);
        for (std::int64_t i = 0; i < count; ++i) expected.set(i, source.get(i));
        if (to == from) expected = source;
        for (const Isa isa : available_isas()) {
          Array result(to, count);
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
        const Array addend = random_array(random, from, count);
        const Array start = random_array(random, to, count);
        Array expected = start;
        for (std::int64_t i = 0; i < count; ++i) {
          const float sum = start.get(i) + addend.get(i);
          expected.set(i, std::isnan(sum) ? std::nanf("") : sum);
        }
        for (const Isa isa : available_isas()) {
          Array result = start;
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
