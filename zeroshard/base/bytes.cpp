#include "zeroshard/base/bytes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

constexpr std::array<std::string_view, 7> kBinaryUnits{"B",   "KiB", "MiB", "GiB",
                                                       "TiB", "PiB", "EiB"};
constexpr std::array<std::string_view, 7> kDecimalUnits{"B", "KB", "MB", "GB", "TB", "PB", "EB"};
constexpr std::array<std::string_view, 5> kCountUnits{"", "K", "M", "B", "T"};

// Rounds halves away from zero: the paper's tables print 41.25 as 41.3, printf would say 41.2.
double round_to_digits(double value, int decimals) {
  const double power = std::pow(10.0, decimals);
  return std::round(value * power) / power;
}

// Decimals that leave three significant digits in front of a unit.
int three_digit_decimals(double value) { return value < 10 ? 2 : value < 100 ? 1 : 0; }

std::string print_decimal(std::int64_t value, std::span<const std::string_view> units) {
  double scaled = std::abs(static_cast<double>(value));
  std::size_t unit = 0;
  // 999.6 would print as 1000, so the choice of the unit looks at the rounded value.
  while (round_to_digits(scaled, three_digit_decimals(scaled)) >= 1000 && unit + 1 < units.size()) {
    scaled /= 1000;
    ++unit;
  }
  const double rounded = round_to_digits(scaled, three_digit_decimals(scaled));
  const char* sign = value < 0 ? "-" : "";
  // Below 1000, `g` leaves out what would be trailing zeros: 30, not 30.0.
  const std::string digits =
      rounded >= 1000 ? fmt::format("{:.0f}", rounded) : fmt::format("{:g}", rounded);
  return fmt::format("{}{}{}{}", sign, digits, units[unit].empty() ? "" : " ", units[unit]);
}

std::string_view trim_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  const auto first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

char lower_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

long double power_of(long double base, std::size_t exponent) {
  long double power = 1;
  while (exponent-- > 0) power *= base;
  return power;
}

std::optional<long double> bytes_in(std::string_view unit) {
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgtpe";
  const auto prefix = kPrefixes.find(unit.front());
  if (prefix == kPrefixes.npos) return std::nullopt;
  const std::string_view rest = unit.substr(1);
  if (rest == "b") return power_of(1000, prefix + 1);
  // A bare "1e" is a power of ten cut short, not an exbibyte.
  if (rest == "ib" || (rest.empty() && unit != "e")) return power_of(1024, prefix + 1);
  return std::nullopt;
}

std::optional<long double> count_in(std::string_view unit) {
  if (unit.empty()) return 1;
  constexpr std::string_view kPrefixes = "kmbt";
  const auto prefix = kPrefixes.find(unit.front());
  if (unit.size() != 1 || prefix == kPrefixes.npos) return std::nullopt;
  return power_of(1000, prefix + 1);
}

template <typename ScaleOf>
std::optional<std::int64_t> read_scaled(std::string_view text, ScaleOf scale_of) {
  const auto quantity = split_quantity(text);
  if (!quantity) return std::nullopt;
  const auto scale = scale_of(quantity->unit);
  if (!scale) return std::nullopt;
  return scale_quantity(quantity->number, *scale);
}

// What is a number, but beyond 64 bits.
template <typename ScaleOf>
void refuse_too_large(std::string_view text, std::string_view option, ScaleOf scale_of) {
  const auto quantity = split_quantity(text);
  const auto scale = quantity ? scale_of(quantity->unit) : std::nullopt;
  if (!scale || quantity->number * *scale < 1) return;
  if (scale_quantity(std::round(quantity->number * *scale), 1)) return;  // a fraction of one
  throw ConfigError({.what = fmt::format("{} is too large", option),
                     .value = fmt::format("'{}'", text),
                     .remedy = "write a number below 2^63"});
}

}  // namespace

std::string human_bytes(std::int64_t bytes) {
  double scaled = std::abs(static_cast<double>(bytes));
  if (scaled < 1024) return fmt::format("{} B", bytes);
  std::size_t unit = 0;
  while (round_to_digits(scaled, 2) >= 1024 && unit + 1 < kBinaryUnits.size()) {
    scaled /= 1024;
    ++unit;
  }
  return fmt::format("{}{:.2f} {}", bytes < 0 ? "-" : "", round_to_digits(scaled, 2),
                     kBinaryUnits[unit]);
}

std::string human_bytes_decimal(std::int64_t bytes) { return print_decimal(bytes, kDecimalUnits); }

std::string human_count(std::int64_t count) { return print_decimal(count, kCountUnits); }

std::optional<Quantity> split_quantity(std::string_view text) {
  text = trim_spaces(text);
  // Keeps out signs, "inf" and "nan", which from_chars would read.
  if (text.empty() || !(text.front() == '.' || (text.front() >= '0' && text.front() <= '9'))) {
    return std::nullopt;
  }
  Quantity quantity;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, quantity.number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit = trim_spaces({stop, static_cast<std::size_t>(end - stop)});
  if (!std::all_of(unit.begin(), unit.end(), is_letter)) return std::nullopt;
  std::transform(unit.begin(), unit.end(), std::back_inserter(quantity.unit), lower_letter);
  return quantity;
}

std::optional<std::int64_t> scale_quantity(long double number, long double scale) {
  constexpr long double kTooLarge = 9223372036854775808.0L;  // 2^63
  const long double exact = number * scale;
  const long double rounded = std::round(exact);
  if (!(rounded >= 0 && rounded < kTooLarge)) return std::nullopt;
  if (scale == 1 && rounded != exact) return std::nullopt;
  return static_cast<std::int64_t>(rounded);
}

std::int64_t parse_bytes(std::string_view text, std::string_view option) {
  if (const auto bytes = read_scaled(text, bytes_in)) return *bytes;
  refuse_too_large(text, option, bytes_in);
  throw ConfigError({.what = fmt::format("{} is not a number of bytes", option),
                     .value = fmt::format("'{}'", text),
                     .remedy = "write a number and a unit, such as 80GiB, 80GB or 512"});
}

std::int64_t parse_count(std::string_view text, std::string_view option) {
  if (const auto count = read_scaled(text, count_in)) return *count;
  refuse_too_large(text, option, count_in);
  throw ConfigError({.what = fmt::format("{} is not a whole number", option),
                     .value = fmt::format("'{}'", text),
                     .remedy = "write a number, such as 7.5B, 124M, 7.5e9 or 1000"});
}

}  // namespace zeroshard
