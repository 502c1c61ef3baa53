#include "zeroshard/config/syntax_error.h"

#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <rapidjson/error/en.h>

namespace zeroshard::config {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// "Invalid value." -> "invalid value"
std::string sentence_part(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::size_t indent_of_line(std::string_view text, std::size_t at) {
  const std::size_t newline = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return text.find_first_not_of(" \t", begin) - begin;
}

// The bracket that is not closed. Read strictly that is often the file's first one; but where a
// closing bracket begins a line that is less indented than the line its partner stands on, the
// partner's own has been forgotten.
std::optional<std::size_t> unclosed_bracket(std::string_view text) {
  std::vector<std::size_t> open;
  std::optional<std::size_t> suspect;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && (text[i] == '{' || text[i] == '[')) {
      open.push_back(i);
    } else if (!quoted && (text[i] == '}' || text[i] == ']')) {
      if (open.empty()) return std::nullopt;
      const std::size_t line_begin = text.find_last_of('\n', i) + 1;
      const bool begins_line = text.find_first_not_of(" \t", line_begin) == i;
      if (begins_line && !suspect && i - line_begin < indent_of_line(text, open.back())) {
        suspect = open.back();
      }
      open.pop_back();
    }
  }
  if (open.empty()) return std::nullopt;
  return suspect.value_or(open.back());
}

struct Words {
  std::string what;
  std::string remedy;
};

Words words_for(rapidjson::ParseErrorCode code, char found) {
  const std::string mend = "mend the JSON here";
  switch (code) {
    case rapidjson::kParseErrorDocumentEmpty: return {"the file is empty", "write { } at least"};
    case rapidjson::kParseErrorDocumentRootNotSingular:
      return {"text behind the last brace", "remove it"};
    case rapidjson::kParseErrorValueInvalid:
      if (found == ',' || found == '}' || found == ']') {
        return {"the value is missing", "write one, or remove the key"};
      }
      return {"no JSON value", mend};
    case rapidjson::kParseErrorObjectMissName:
      if (found == ',') return {"a comma too many", "remove it"};
      return {"expected a key in quotes", mend};
    case rapidjson::kParseErrorObjectMissColon:
      return {"a colon is missing before this", "write \"key\": value"};
    case rapidjson::kParseErrorObjectMissCommaOrCurlyBracket:
      if (found == ']') return {"a ] where a { is open", "close that first"};
      return {"a comma is missing before this", "add it"};
    case rapidjson::kParseErrorArrayMissCommaOrSquareBracket:
      if (found == '}') return {"a } where a [ is open", "close that first"};
      return {"a comma is missing before this", "add it"};
    default: return {sentence_part(rapidjson::GetParseError_En(code)), mend};
  }
}

}  // namespace

SyntaxError explain_syntax(const PlainJson& json, rapidjson::ParseErrorCode code,
                           std::size_t offset, std::size_t source_size) {
  const bool inside = offset < json.origin.size();
  const char found = inside ? json.text[offset] : '\0';
  if (inside && code == rapidjson::kParseErrorStringEscapeInvalid &&
      (found == '\n' || found == '\r')) {
    return {json.origin[offset], "a string without its closing quote", "close it on its own line"};
  }
  const bool at_end = json.text.find_first_not_of(kBlanks, offset) == std::string::npos;
  if (at_end && json.open_comment) {
    return {*json.open_comment, "a comment that is never closed", "end it with */"};
  }
  if (at_end && code != rapidjson::kParseErrorStringMissQuotationMark) {
    if (const auto bracket = unclosed_bracket(json.text)) {
      const char opened = json.text[*bracket];
      return {json.origin[*bracket], fmt::format("this {} is never closed", opened),
              fmt::format("add a {}", opened == '{' ? '}' : ']')};
    }
  }
  const Words words = words_for(code, found);
  return {inside ? json.origin[offset] : source_size, words.what, words.remedy};
}

}  // namespace zeroshard::config
