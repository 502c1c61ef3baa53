// Numbers in files of the system, read without streams: our Python module carries a libstdc++ of
// its own, and its streams take the locale of the one that Python has loaded, where reading a
// number from them ends in a crash.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace zeroshard {

// The number that the text begins with, after spaces. It is taken off the text.
inline std::optional<std::int64_t> take_number(std::string_view& text) {
  const auto begin = text.find_first_not_of(" \t\n");
  if (begin == text.npos) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + begin, end, number);
  if (error != std::errc()) return std::nullopt;
  text = std::string_view(stop, static_cast<std::size_t>(end - stop));
  return number;
}

}  // namespace zeroshard
