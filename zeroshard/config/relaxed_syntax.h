// Turns the forms of Hjson that people's files really use into plain JSON (docs/config.md lists
// them), remembering for every character where it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/config/problem.h"

namespace zeroshard::config {

// Maps byte offsets of a text to lines and columns. Asked in the order of the text, as readers do,
// it looks at each character once. One thread at a time.
class LineMap {
 public:
  explicit LineMap(std::string_view text);
  Position at(std::size_t offset) const;

 private:
  std::string_view text_;
  std::vector<std::size_t> line_starts_;
  mutable std::size_t last_offset_ = 0;  // the last answer, from which the next is counted on
  mutable Position last_ = {};
};

struct PlainJson {
  std::string text;
  std::vector<std::uint32_t> origin;  // origin[i]: offset in the source of text[i]
  std::optional<std::size_t> open_comment = std::nullopt;  // where one begins that never ends
};

// Comments become blanks; a missing comma, key quotes, string quotes and outer braces are added,
// each with a warning. What is neither JSON nor one of these is left for the parser to refuse.
PlainJson to_plain_json(std::string_view source, const LineMap& lines, Report& report);

}  // namespace zeroshard::config
