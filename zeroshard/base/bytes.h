// Sizes and counts as people write them: printing for tables and messages, reading for options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zeroshard {

inline constexpr std::int64_t kMiB = 1 << 20;

// Binary units, two decimals: "512 B", "1.50 GiB". Negative sizes (differences) keep their sign.
std::string human_bytes(std::int64_t bytes);

// Decimal units, three significant digits, as the ZeRO paper prints: "120 GB", "31.4 GB", "1.88
// GB".
std::string human_bytes_decimal(std::int64_t bytes);

// Parameters and elements, three significant digits: "7.5 B", "124 M", "950".
std::string human_count(std::int64_t count);

// Reads "80GiB", "80 GB", "1.5gib", "10G", "512". KB to EB are powers of 1000, KiB to EiB powers of
// 1024, and a bare K to P is a power of 1024 too, as in all talk about memory. Without a unit the
// number must be whole; with one, fractions are rounded to the nearest byte.
// Bad text throws ConfigError; `option` is what the message says was wrong.
std::int64_t parse_bytes(std::string_view text, std::string_view option = "the size");

// Reads "7.5e9", "7.5B", "124M", "1000": K, M, B, T are powers of 1000. Otherwise as parse_bytes.
std::int64_t parse_count(std::string_view text, std::string_view option = "the count");

// A number that is zero or more, and the letters behind it in lower case ("" where there are none).
struct Quantity {
  long double number = 0;  // wide enough to hold every std::int64_t exactly
  std::string unit;
};

// "1.5 GiB" -> {1.5, "gib"}. Nothing where the text is not a number followed by letters.
std::optional<Quantity> split_quantity(std::string_view text);

// `number * scale` to the nearest whole number, or nothing where it does not fit.
// Scale 1 demands a whole number.
std::optional<std::int64_t> scale_quantity(long double number, long double scale);

}  // namespace zeroshard
