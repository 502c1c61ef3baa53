#include "zeroshard/config/summary.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace zeroshard::config {
namespace {

constexpr std::size_t kMostNamed = 8;

// What is done instead differs from key to key, and is one line's length for each.
bool remedies_may_differ(Code code) { return code == Code::no_effect; }

bool same_kind(const Problem& a, const Problem& b) {
  return a.severity == Severity::warning && b.severity == Severity::warning && a.code == b.code &&
         a.what == b.what && (a.remedy == b.remedy || remedies_may_differ(a.code));
}

// "fp16.x = 3 (4:5)"; a problem of the syntax has no key, and a dictionary no places.
std::string mention(const Problem& problem) {
  std::string text = problem.key;
  if (!problem.value.empty()) text += " = " + problem.value;
  if (problem.at.line == 0) return text;
  const std::string place = fmt::format("{}:{}", problem.at.line, problem.at.column);
  return text.empty() ? place : fmt::format("{} ({})", text, place);
}

Problem joined(const std::vector<Problem>& kind) {
  Problem problem = kind.front();
  std::string list = mention(kind.front());
  const std::size_t named = std::min(kind.size(), kMostNamed);
  for (std::size_t i = 1; i < named; ++i) list += ", " + mention(kind[i]);
  if (named < kind.size()) list += fmt::format(" and {} more", kind.size() - named);
  const bool alike = std::all_of(kind.begin(), kind.end(), [&](const Problem& other) {
    return other.remedy == problem.remedy;
  });
  if (!alike) problem.remedy = "zeroshard config keys says what is done instead";
  problem.key = std::move(list);
  problem.value.clear();
  problem.at = {};
  return problem;
}

}  // namespace

std::vector<Problem> summary(const Report& report, bool verbose) {
  if (verbose) return report.problems();
  std::vector<std::vector<Problem>> kinds;
  for (const Problem& problem : report.problems()) {
    if (problem.severity == Severity::note) continue;
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& members) {
      return same_kind(members.front(), problem);
    });
    if (kind == kinds.end()) {
      kinds.push_back({problem});
    } else {
      kind->push_back(problem);
    }
  }
  std::vector<Problem> lines;
  for (const auto& kind : kinds) lines.push_back(kind.size() == 1 ? kind.front() : joined(kind));
  return lines;
}

}  // namespace zeroshard::config
