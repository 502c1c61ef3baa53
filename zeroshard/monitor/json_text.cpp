#include "zeroshard/monitor/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>

#include <fmt/core.h>

namespace zeroshard {
namespace {

// The bytes that may follow a first byte: how many, and the range of the first of them. The rest
// are 0x80 to 0xBF (RFC 3629, section 4).
struct Continuation {
  std::size_t count;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

Continuation continuation_of(unsigned char first) {
  if (first >= 0xC2 && first <= 0xDF) return {1};
  if (first == 0xE0) return {2, 0xA0};        // shorter forms exist
  if (first == 0xED) return {2, 0x80, 0x9F};  // surrogates
  if (first >= 0xE1 && first <= 0xEF) return {2};
  if (first == 0xF0) return {3, 0x90};        // shorter forms exist
  if (first == 0xF4) return {3, 0x80, 0x8F};  // beyond U+10FFFF
  if (first >= 0xF1 && first <= 0xF3) return {3};
  return {0};
}

// Length of the character of two or more bytes that `text` begins with; 0 where it is none.
std::size_t wide_character(std::string_view text) {
  const Continuation rest = continuation_of(static_cast<unsigned char>(text.front()));
  if (rest.count == 0 || text.size() <= rest.count) return 0;
  for (std::size_t i = 1; i <= rest.count; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool first = i == 1;
    if (byte < (first ? rest.low : 0x80) || byte > (first ? rest.high : 0xBF)) return 0;
  }
  return rest.count + 1;
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  if (static_cast<unsigned char>(c) < 0x20) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  } else {
    out += c;
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t length = 1;
    if (static_cast<unsigned char>(text.front()) < 0x80) {
      append_ascii(out, text.front());
    } else if ((length = wide_character(text)) > 0) {
      out += text.substr(0, length);
    } else {
      out += "\xEF\xBF\xBD";
      length = 1;
    }
    text.remove_prefix(length);
  }
  out += '"';
}

void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> digits{};  // the longest is "-2.2250738585072014e-308"
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out += text;
  if (text.find_first_of(".e") == text.npos) out += ".0";
}

}  // namespace zeroshard
