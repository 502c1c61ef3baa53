// How checks, explanations and the key list look, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "zeroshard/config/explain.h"
#include "zeroshard/config/problem.h"

namespace zeroshard::cli {

struct CheckedFile {
  std::string path;
  config::Report report;

  // "fine", "warnings" or "rejected".
  std::string verdict() const;
};

// `verbose` adds the keys that change nothing, and gives every warning a line of its own.
std::string check_text(const std::vector<CheckedFile>& files, bool verbose);
std::string check_json(const std::vector<CheckedFile>& files, bool verbose);

std::string explain_text(const std::vector<config::ExplainedKey>& rows);
std::string explain_json(const std::vector<config::ExplainedKey>& rows);

std::string keys_text();
std::string keys_json();
std::string keys_markdown();

}  // namespace zeroshard::cli
