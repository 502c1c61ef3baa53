#include "zeroshard/config/problem.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace zeroshard::config {

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::error: return "error";
  }
  return "?";
}

std::string_view name_of(Code code) {
  switch (code) {
    case Code::syntax: return "syntax";
    case Code::relaxed_syntax: return "relaxed_syntax";
    case Code::duplicate_key: return "duplicate_key";
    case Code::unknown_key: return "unknown_key";
    case Code::wrong_type: return "wrong_type";
    case Code::out_of_range: return "out_of_range";
    case Code::missing_key: return "missing_key";
    case Code::contradiction: return "contradiction";
    case Code::deprecated: return "deprecated";
    case Code::odd_value: return "odd_value";
    case Code::no_effect: return "no_effect";
    case Code::not_yet: return "not_yet";
    case Code::changes_results: return "changes_results";
    case Code::unreadable: return "unreadable";
    case Code::unsupported: return "unsupported";
  }
  return "?";
}

namespace {

std::string line_of(std::string_view file, std::string_view severity, const Problem& problem) {
  std::string line(file);
  if (problem.at.line > 0) line += fmt::format(":{}:{}", problem.at.line, problem.at.column);
  line += fmt::format(": {}[config] ", severity);
  line += problem.key;
  if (!problem.value.empty()) line += fmt::format(" = {}", problem.value);
  if (!problem.key.empty()) line += ": ";
  line += problem.what;
  if (!problem.remedy.empty()) line += "; " + problem.remedy;
  // Keys and unquoted strings of the file may hold anything; a message is one line of text.
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20U || c == 0x7F) c = '?';
  }
  return line;
}

}  // namespace

std::string format_problem(std::string_view file, const Problem& problem) {
  return line_of(file, fmt::format("{}: ", name_of(problem.severity)), problem);
}

std::string describe_problem(std::string_view file, const Problem& problem) {
  return line_of(file, "", problem);
}

void Report::add(Problem problem) {
  if (strict_ && problem.code == Code::unknown_key) problem.severity = Severity::error;
  problems_.push_back(std::move(problem));
}

void Report::sort() {
  std::stable_sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.severity, a.at) < std::tie(b.severity, b.at);
  });
}

void Report::forget_positions() {
  for (Problem& problem : problems_) problem.at = {};
}

std::size_t Report::count(Severity severity) const {
  return static_cast<std::size_t>(
      std::count_if(problems_.begin(), problems_.end(),
                    [&](const Problem& problem) { return problem.severity == severity; }));
}

}  // namespace zeroshard::config
