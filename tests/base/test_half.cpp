// 16-bit floats, checked for every bit pattern against arithmetic that shares no code with them.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "zeroshard/base/half.h"

namespace zeroshard {
namespace {

// The value of a 16-bit pattern with `exponent_bits`, by its definition.
double value_of(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const double scaled = std::ldexp(fraction, -fraction_bits);
  return exponent == 0 ? sign * std::ldexp(scaled, 1 - bias)
                       : sign * std::ldexp(1 + scaled, exponent - bias);
}

struct Format {
  int exponent_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
};

class Half : public testing::TestWithParam<Format> {};

TEST_P(Half, WideningIsExactAndNarrowingGoesBack) {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double expected = value_of(bits, GetParam().exponent_bits);
    const float widened = GetParam().widen(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(widened)) << i;
      EXPECT_TRUE(std::isnan(GetParam().widen(GetParam().narrow(widened)))) << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(widened), expected) << i;
    ASSERT_EQ(std::signbit(widened), std::signbit(expected)) << i;
    ASSERT_EQ(GetParam().narrow(widened), bits) << i;
  }
}

// Between any two neighbours: below the middle goes down, above goes up, the middle to the even
// one.
TEST_P(Half, NarrowingRoundsToNearestEven) {
  const int infinity = ((1 << GetParam().exponent_bits) - 1) << (15 - GetParam().exponent_bits);
  for (int i = 0; i + 1 < infinity; ++i) {
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    const double middle =
        (value_of(low, GetParam().exponent_bits) + value_of(high, GetParam().exponent_bits)) / 2;
    const auto exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle) << i;
    ASSERT_EQ(GetParam().narrow(exact), i % 2 == 0 ? low : high) << i;
    ASSERT_EQ(GetParam().narrow(std::nextafter(exact, 0.0F)), low) << i;
    ASSERT_EQ(GetParam().narrow(std::nextafter(exact, std::numeric_limits<float>::infinity())),
              high)
        << i;
    ASSERT_EQ(GetParam().narrow(-exact) & 0x7FFF, i % 2 == 0 ? low : high) << i;
  }
}

TEST_P(Half, TooLargeIsInfinity) {
  const auto infinity = GetParam().narrow(std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isinf(GetParam().widen(infinity)));
  EXPECT_EQ(GetParam().narrow(std::numeric_limits<float>::max()), infinity);
}

INSTANTIATE_TEST_SUITE_P(Formats, Half,
                         testing::Values(Format{8, bf16_to_fp32, fp32_to_bf16},
                                         Format{5, fp16_to_fp32, fp32_to_fp16}));

}  // namespace
}  // namespace zeroshard
