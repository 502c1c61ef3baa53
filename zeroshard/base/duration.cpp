#include "zeroshard/base/duration.h"

#include <cstdint>
#include <optional>

#include <fmt/core.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

std::optional<long double> milliseconds_in(std::string_view unit) {
  if (unit == "ms") return 1;
  if (unit.empty() || unit == "s" || unit == "sec") return 1000;
  if (unit == "m" || unit == "min") return 60 * 1000;
  if (unit == "h") return 3600 * 1000;
  if (unit == "d") return 24 * 3600 * 1000;
  return std::nullopt;
}

std::optional<std::int64_t> read_milliseconds(std::string_view text) {
  const auto quantity = split_quantity(text);
  if (!quantity) return std::nullopt;
  const auto scale = milliseconds_in(quantity->unit);
  if (!scale) return std::nullopt;
  return scale_quantity(quantity->number, *scale);
}

std::uint64_t rounded_quotient(std::uint64_t value, std::uint64_t divisor) {
  return value / divisor + (value % divisor * 2 >= divisor ? 1 : 0);
}

// Each branch rounds before it chooses, so that 59.96 s reads "1 min 00 s" and never "60.0 s".
std::string human_milliseconds(std::uint64_t ms) {
  if (ms < 1000) return fmt::format("{} ms", ms);
  const auto tenths = rounded_quotient(ms, 100);
  if (tenths < 600) return fmt::format("{}.{} s", tenths / 10, tenths % 10);
  const auto seconds = rounded_quotient(ms, 1000);
  if (seconds < 3600) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  const auto minutes = rounded_quotient(ms, 60 * 1000);
  if (minutes < 24 * 60) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  const auto hours = rounded_quotient(ms, 3600 * 1000);
  return fmt::format("{} d {:02} h", hours / 24, hours % 24);
}

}  // namespace

std::chrono::milliseconds parse_duration(std::string_view text, std::string_view option) {
  if (const auto ms = read_milliseconds(text)) return std::chrono::milliseconds(*ms);
  throw ConfigError({.what = fmt::format("{} is not a length of time", option),
                     .value = fmt::format("'{}'", text),
                     .remedy = "write a number and a unit, such as 30min, 5s, 500ms or 2h"});
}

std::string human_duration(std::chrono::milliseconds duration) {
  const auto ms = static_cast<std::int64_t>(duration.count());
  if (ms >= 0) return human_milliseconds(static_cast<std::uint64_t>(ms));
  return "-" + human_milliseconds(-static_cast<std::uint64_t>(ms));
}

}  // namespace zeroshard
