#include "zeroshard/config/key.h"

#include <algorithm>

#include <fmt/format.h>

namespace zeroshard::config {

bool Key::applies_to(const std::string& kind) const {
  return only_for.empty() || std::find(only_for.begin(), only_for.end(), kind) != only_for.end();
}

bool Key::is_old_spelling(std::string_view spelling) const {
  return std::find(old_spellings.begin(), old_spellings.end(), spelling) != old_spellings.end();
}

Key& Key::alias(std::string name) {
  aliases.push_back(std::move(name));
  return *this;
}

Key& Key::formerly(std::string name) {
  old_spellings.push_back(std::move(name));
  return *this;
}

Key& Key::for_kinds(std::vector<std::string> kinds) {
  only_for = std::move(kinds);
  return *this;
}

Key& Key::must_be_given() {
  required = true;
  fixed_default = "(required)";
  return *this;
}

Key& Key::infinity_is(std::string value) {
  infinity = std::move(value);
  return *this;
}

std::string Limits::expected(const std::string& type) const {
  const std::string noun = (type.front() == 'i' ? "an " : "a ") + type;
  const bool has_min = min > -std::numeric_limits<double>::infinity();
  const bool has_max = max < std::numeric_limits<double>::infinity();
  if (has_min && has_max) return fmt::format("{} from {} to {}", noun, min, max);
  if (has_max) return fmt::format("{} of at most {}", noun, max);
  return fmt::format("{} {} {}", noun, above_min ? "above" : "of at least", min);
}

}  // namespace zeroshard::config
