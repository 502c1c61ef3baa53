#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kKiB = 1024, kGiB = 1024 * kMiB;
constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
constexpr auto kSmallest = std::numeric_limits<std::int64_t>::min();

TEST(Bytes, HumanBytesAreBinary) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(kKiB), "1.00 KiB");
  EXPECT_EQ(human_bytes(kGiB + kGiB / 2), "1.50 GiB");
  EXPECT_EQ(human_bytes(80 * kGiB), "80.00 GiB");
  EXPECT_EQ(human_bytes(-3 * kMiB), "-3.00 MiB");
  EXPECT_EQ(human_bytes(kLargest), "8.00 EiB");
  EXPECT_EQ(human_bytes(kSmallest), "-8.00 EiB");
}

TEST(Bytes, HumanBytesNeverPrint1024OfAUnit) {
  EXPECT_EQ(human_bytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(human_bytes(kGiB - 1), "1.00 GiB");
  EXPECT_EQ(human_bytes(kMiB - 6), "1023.99 KiB");
}

// Table 1 of the ZeRO paper, 7.5 B parameters.
TEST(Bytes, DecimalBytesPrintAsThePaper) {
  EXPECT_EQ(human_bytes_decimal(120'000'000'000), "120 GB");
  EXPECT_EQ(human_bytes_decimal(52'500'000'000), "52.5 GB");
  EXPECT_EQ(human_bytes_decimal(41'250'000'000), "41.3 GB");
  EXPECT_EQ(human_bytes_decimal(30'000'000'000), "30 GB");
  EXPECT_EQ(human_bytes_decimal(31'406'250'000), "31.4 GB");
  EXPECT_EQ(human_bytes_decimal(16'640'625'000), "16.6 GB");
  EXPECT_EQ(human_bytes_decimal(1'875'000'000), "1.88 GB");
}

TEST(Bytes, DecimalBytesAtTheEdges) {
  EXPECT_EQ(human_bytes_decimal(0), "0 B");
  EXPECT_EQ(human_bytes_decimal(999), "999 B");
  EXPECT_EQ(human_bytes_decimal(1000), "1 KB");
  EXPECT_EQ(human_bytes_decimal(999'499), "999 KB");
  EXPECT_EQ(human_bytes_decimal(999'500), "1 MB");
  EXPECT_EQ(human_bytes_decimal(9'996), "10 KB");
  EXPECT_EQ(human_bytes_decimal(-31'400'000'000), "-31.4 GB");
  EXPECT_EQ(human_bytes_decimal(kLargest), "9.22 EB");
}

TEST(Bytes, HumanCounts) {
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(124'439'808), "124 M");
  EXPECT_EQ(human_count(7'500'000'000), "7.5 B");
  EXPECT_EQ(human_count(1'000'000'000'000), "1 T");
  EXPECT_EQ(human_count(12'340), "12.3 K");
  EXPECT_EQ(human_count(kLargest), "9223372 T");
}

TEST(Bytes, ParsesUnits) {
  EXPECT_EQ(parse_bytes("512"), 512);
  EXPECT_EQ(parse_bytes("512B"), 512);
  EXPECT_EQ(parse_bytes("80GiB"), 80 * kGiB);
  EXPECT_EQ(parse_bytes("80 GiB"), 80 * kGiB);
  EXPECT_EQ(parse_bytes("  80\tGiB "), 80 * kGiB);
  EXPECT_EQ(parse_bytes("80GB"), 80'000'000'000);
  EXPECT_EQ(parse_bytes("1.5gib"), kGiB + kGiB / 2);
  EXPECT_EQ(parse_bytes("10G"), 10 * kGiB);
  EXPECT_EQ(parse_bytes("3k"), 3 * kKiB);
  EXPECT_EQ(parse_bytes("2m"), 2 * kMiB);
  EXPECT_EQ(parse_bytes("1T"), 1024 * kGiB);
  EXPECT_EQ(parse_bytes("5e8"), 500'000'000);
  EXPECT_EQ(parse_bytes(".5KiB"), 512);
  EXPECT_EQ(parse_bytes("0"), 0);
}

TEST(Bytes, FractionsAreRoundedBehindAUnitOnly) {
  EXPECT_EQ(parse_bytes("1.1GB"), 1'100'000'000);
  EXPECT_EQ(parse_bytes("0.3KiB"), 307);  // 307.2
  EXPECT_EQ(parse_bytes("1.0"), 1);
  EXPECT_THROW(parse_bytes("1.5"), ConfigError);
  EXPECT_THROW(parse_count("0.25"), ConfigError);
}

TEST(Bytes, ParsesCounts) {
  EXPECT_EQ(parse_count("7.5e9"), 7'500'000'000);
  EXPECT_EQ(parse_count("7.5B"), 7'500'000'000);
  EXPECT_EQ(parse_count("7.5 b"), 7'500'000'000);
  EXPECT_EQ(parse_count("124M"), 124'000'000);
  EXPECT_EQ(parse_count("1T"), 1'000'000'000'000);
  EXPECT_EQ(parse_count("1000"), 1000);
  EXPECT_EQ(parse_count("2k"), 2000);
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const auto* text : {"",      " ",     "GiB",     "-1",     "-1GiB", "+1",   "nan",
                           "inf",   "1e400", "80 Gi B", "80GiBx", "80XB",  "80iB", "0x10",
                           "1,5GB", "1e",    "80GiB 1", "--1",    ".",     "1..5", "80GG"}) {
    EXPECT_THROW(parse_bytes(text), ConfigError) << text;
    EXPECT_THROW(parse_count(text), ConfigError) << text;
  }
  EXPECT_THROW(parse_count("80GiB"), ConfigError);
  EXPECT_THROW(parse_count("7.5BB"), ConfigError);
}

TEST(Bytes, RefusesOverflowByOne) {
  EXPECT_EQ(parse_bytes("9223372036854775807"), kLargest);
  EXPECT_THROW(parse_bytes("9223372036854775808"), ConfigError);
  EXPECT_EQ(parse_bytes("7EiB"), 7 * (std::int64_t{1} << 60));
  EXPECT_THROW(parse_bytes("8EiB"), ConfigError);
  EXPECT_THROW(parse_bytes("1e300TB"), ConfigError);
  EXPECT_THROW(parse_count("1e19"), ConfigError);
}

TEST(Bytes, MessageNamesOptionValueAndRemedy) {
  try {
    parse_bytes("80XB", "--device-memory");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.fault().what, "--device-memory is not a number of bytes");
    EXPECT_EQ(error.fault().value, "'80XB'");
    EXPECT_NE(error.fault().remedy.find("80GiB"), std::string::npos);
  }
}

TEST(Bytes, ANumberThatIsTooLargeIsCalledThat) {
  const auto refusal = [](const auto& parse, const char* text) {
    try {
      parse(text, "--x");
    } catch (const ConfigError& error) {
      return error.fault().what;
    }
    return std::string("accepted");
  };
  for (const char* text : {"9223372036854775808", "8EiB", "1e300TB"}) {
    EXPECT_EQ(refusal(parse_bytes, text), "--x is too large") << text;
  }
  EXPECT_EQ(refusal(parse_count, "1e30"), "--x is too large");
  EXPECT_EQ(refusal(parse_count, "1e30GiB"), "--x is not a whole number");
  EXPECT_EQ(refusal(parse_count, "2.5"), "--x is not a whole number");
  EXPECT_EQ(refusal(parse_bytes, "0.25"), "--x is not a number of bytes");
}

// Sizes spread evenly over the orders of magnitude.
std::int64_t random_size(std::mt19937_64& random) {
  return static_cast<std::int64_t>(random() >> (1 + random() % 63));
}

TEST(Bytes, WhatIsPrintedReadsBackWithinItsDigits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 5000; ++i) {
    const auto size = random_size(random);
    if (size > kLargest - (kLargest >> 7)) continue;  // may round up to 2^63
    const auto exact = static_cast<double>(size);
    EXPECT_NEAR(parse_bytes(human_bytes(size)), exact, exact * 0.00501) << size;
    EXPECT_NEAR(parse_bytes(human_bytes_decimal(size)), exact, exact * 0.00501) << size;
    EXPECT_NEAR(parse_count(human_count(size)), exact, exact * 0.00501) << size;
    EXPECT_EQ(parse_bytes(std::to_string(size)), size);
    EXPECT_EQ(parse_count(std::to_string(size)), size);
  }
}

TEST(Bytes, PrintingIsStableUnderReadingBack) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 5000; ++i) {
    const auto size = random_size(random) / 2;
    const auto decimal = human_bytes_decimal(size);
    EXPECT_EQ(human_bytes_decimal(parse_bytes(decimal)), decimal) << size;
    const auto binary = human_bytes(size);
    EXPECT_EQ(human_bytes(parse_bytes(binary)), binary) << size;
  }
}

}  // namespace
}  // namespace zeroshard
