#include "zeroshard/config/placeholder.h"

#include <array>
#include <utility>

namespace zeroshard::config {
namespace {

// How a placeholder begins and ends, in Jinja, shells, sentences and Python.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kForms{
    {{"{{", "}}"}, {"{%", "%}"}, {"${", "}"}, {"<", ">"}, {"%(", ")s"}}};

// $BATCH, of a shell.
std::optional<std::string_view> variable_at(std::string_view rest) {
  const auto is_letter = [](char c) {
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  if (rest.size() < 2 || rest[0] != '$' || !is_letter(rest[1])) return std::nullopt;
  std::size_t end = 2;
  while (end < rest.size() && (is_letter(rest[end]) || (rest[end] >= '0' && rest[end] <= '9'))) {
    ++end;
  }
  return rest.substr(0, end);
}

// One that begins at `offset` and ends on the same line.
std::optional<std::string_view> placeholder_at(std::string_view text, std::size_t offset) {
  const std::string_view rest = text.substr(offset, text.find('\n', offset) - offset);
  for (const auto& [opening, closing] : kForms) {
    if (!rest.starts_with(opening)) continue;
    const std::size_t end = rest.find(closing, opening.size());
    if (end == std::string_view::npos) continue;
    // With a quote or nothing inside, {{ is a section in a section whose key was forgotten.
    const std::string_view inside = rest.substr(opening.size(), end - opening.size());
    const bool named = inside.find_first_not_of(" \t") != std::string_view::npos;
    if (!named || inside.find('"') != std::string_view::npos) continue;
    return rest.substr(0, end + closing.size());
  }
  return variable_at(rest);
}

// Where a comment ends that begins at `offset`; `offset` itself where none does.
std::size_t behind_comment(std::string_view text, std::size_t offset) {
  const std::string_view rest = text.substr(offset);
  const bool block = rest.starts_with("/*");
  if (!block && !rest.starts_with("//") && !rest.starts_with("#")) return offset;
  const std::size_t end = block ? text.find("*/", offset + 2) : text.find('\n', offset);
  return end == std::string_view::npos ? text.size() : end + (block ? 2 : 0);
}

}  // namespace

bool is_placeholder(std::string_view value) {
  return !value.empty() && placeholder_at(value, 0).has_value();
}

std::optional<FoundPlaceholder> find_placeholder(std::string_view text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') quoted = false;
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
    i = behind_comment(text, i);
    if (i == text.size()) break;
    if (const auto found = placeholder_at(text, i)) return {{i, std::string(*found)}};
  }
  return std::nullopt;
}

bool is_git_lfs_pointer(std::string_view text) {
  return text.starts_with("version https://git-lfs.github.com/spec/");
}

}  // namespace zeroshard::config
