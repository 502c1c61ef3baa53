// Characters of UTF-8 text, for columns and widths.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace zeroshard {

// Whether a byte continues a character that an earlier byte began.
inline bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

inline std::size_t character_count(std::string_view text) {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues_character));
}

// At most `limit` bytes, cut between characters; "..." stands for what was left out.
inline std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  std::size_t cut = limit;
  while (cut > 0 && continues_character(text[cut])) --cut;
  return std::string(text.substr(0, cut)) + "...";
}

}  // namespace zeroshard
