// What holds for the reader whatever the text: shared by the mutation test and the fuzz target.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "zeroshard/config/explain.h"
#include "zeroshard/config/read.h"

namespace zeroshard::config {

// Characters of each line; what follows the last newline is a line too.
inline std::vector<int> line_lengths(std::string_view text) {
  std::vector<int> lengths{0};
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
    if (c == '\n') {
      lengths.push_back(0);
    } else if (!continues) {
      ++lengths.back();
    }
  }
  return lengths;
}

inline bool is_inside(Position at, const std::vector<int>& lengths) {
  if (at.line < 1 || at.line > static_cast<int>(lengths.size())) return false;
  return at.column >= 1 && at.column <= lengths[static_cast<std::size_t>(at.line) - 1] + 1;
}

// Two readings of one text agree, but that strict makes errors of unknown keys.
inline bool same_but_stricter(const ReadResult& read, const ReadResult& strict) {
  // Errors come last, so that what has become one has moved.
  const auto by_place = [](const Report& report) {
    std::vector<Problem> problems = report.problems();
    std::ranges::stable_sort(problems, [](const Problem& a, const Problem& b) {
      return std::tie(a.at, a.code, a.key, a.what) < std::tie(b.at, b.code, b.key, b.what);
    });
    return problems;
  };
  const auto mild = by_place(read.report);
  const auto hard = by_place(strict.report);
  return std::equal(
      mild.begin(), mild.end(), hard.begin(), hard.end(), [](const Problem& a, const Problem& b) {
        const bool sharpened = a.code == Code::unknown_key && b.severity == Severity::error;
        return a.code == b.code && a.key == b.key && a.value == b.value && a.at == b.at &&
               a.what == b.what && a.remedy == b.remedy && (a.severity == b.severity || sharpened);
      });
}

inline bool same_row(const ExplainedKey& a, const ExplainedKey& b) {
  return a.key == b.key && a.value == b.value && a.source == b.source && a.at == b.at &&
         a.note == b.note;
}

inline std::string broken_by_problem(const Problem& problem, const std::vector<int>& lengths) {
  const std::string line = format_problem("f", problem);
  if (!is_inside(problem.at, lengths)) return "a place outside the text: " + line;
  if (problem.what.empty()) return "a problem without a word: " + line;
  const bool one_line = std::all_of(line.begin(), line.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20U && c != 0x7F;
  });
  return one_line ? "" : "a message with control characters: " + line;
}

// Empty, or the property that this text breaks. Throws only what the reader throws.
inline std::string broken_property(std::string_view text) {
  const ReadResult read = read_config(text, {.world_size = 6});
  const auto lengths = line_lengths(text);
  const auto& problems = read.report.problems();
  for (const Problem& problem : problems) {
    const std::string broken = broken_by_problem(problem, lengths);
    if (!broken.empty()) return broken;
  }
  const auto earlier = [](const Problem& a, const Problem& b) {
    return std::tie(a.severity, a.at) < std::tie(b.severity, b.at);
  };
  if (!std::is_sorted(problems.begin(), problems.end(), earlier)) return "problems out of order";
  const auto syntax = std::count_if(problems.begin(), problems.end(), [](const Problem& problem) {
    return problem.code == Code::syntax;
  });
  if (syntax > 1) return "more than one error of the syntax";
  const ReadResult strict = read_config(text, {.strict = true, .world_size = 6});
  if (!same_but_stricter(read, strict)) return "read again, differs";
  if (syntax > 0) return {};  // nothing was read, so there is nothing to explain
  std::set<std::string> keys;
  const auto rows = explain(read, 6);
  for (const ExplainedKey& row : rows) {
    if (!keys.insert(row.key).second) return "explained twice: " + row.key;
    if (row.at.line != 0 && !is_inside(row.at, lengths)) return "explained outside: " + row.key;
  }
  const auto again = explain(strict, 6);
  if (!std::equal(rows.begin(), rows.end(), again.begin(), again.end(), same_row)) {
    return "explained again, differs";
  }
  return {};
}

}  // namespace zeroshard::config
