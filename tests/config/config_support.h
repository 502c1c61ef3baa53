// What every test of the reader asks: which problems, and where.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zeroshard/config/explain.h"
#include "zeroshard/config/read.h"

namespace zeroshard::config {

using Lines = std::vector<std::string>;

// "2:7 error wrong_type fp16.enabled"; a problem of the syntax has no key.
inline std::string line_of(const Problem& problem) {
  std::string line = fmt::format("{}:{} {} {}", problem.at.line, problem.at.column,
                                 name_of(problem.severity), name_of(problem.code));
  return problem.key.empty() ? line : line + " " + problem.key;
}

inline Lines problems_of(std::string_view text, const ReadOptions& options = {}) {
  Lines lines;
  const ReadResult read = read_config(text, options);
  for (const Problem& problem : read.report.problems()) lines.push_back(line_of(problem));
  return lines;
}

// "error wrong_type fp16.enabled", for tests that do not care where.
inline Lines kinds_of_problems(std::string_view text, const ReadOptions& options = {}) {
  Lines lines = problems_of(text, options);
  for (std::string& line : lines) line.erase(0, line.find(' ') + 1);
  return lines;
}

// The file's one problem.
inline Problem only_problem(std::string_view text, const ReadOptions& options = {}) {
  const ReadResult read = read_config(text, options);
  EXPECT_EQ(read.report.problems().size(), 1U) << text;
  return read.report.problems().empty() ? Problem{.what = "none"} : read.report.problems().front();
}

// The config of a file that has no problem at all.
inline Config good_config(std::string_view text) {
  ReadResult read = read_config(text);
  for (const Problem& problem : read.report.problems()) {
    ADD_FAILURE() << format_problem(std::string(text), problem);
  }
  return read.config;
}

// One row of `config explain`.
inline ExplainedKey explained(const ReadResult& read, std::string_view key,
                              std::optional<int> world_size = std::nullopt) {
  for (const ExplainedKey& row : explain(read, world_size)) {
    if (row.key == key) return row;
  }
  ADD_FAILURE() << key << " is not explained";
  return {};
}

// {"a": {"b": VALUE}} for the path a.b.
inline std::string nested(std::string_view path, std::string_view value) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return fmt::format("{{\"{}\": {}}}", path, value);
  return fmt::format("{{\"{}\": {}}}", path.substr(0, dot), nested(path.substr(dot + 1), value));
}

}  // namespace zeroshard::config
