// Columns for a terminal.
#pragma once

#include <string>
#include <vector>

namespace zeroshard::cli {

class TextTable {
 public:
  enum class Align { left, right };

  // One alignment per column; the last left-aligned column is not padded.
  explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}

  void add_row(std::vector<std::string> cells);
  void add_rule();

  std::string text() const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

}  // namespace zeroshard::cli
