#include "cli/text_table.h"

#include <algorithm>

#include "zeroshard/base/check.h"
#include "zeroshard/base/utf8.h"

namespace zeroshard::cli {

void TextTable::add_row(std::vector<std::string> cells) {
  ZS_CHECK_EQ(cells.size(), columns_.size());
  rows_.push_back(std::move(cells));
}

void TextTable::add_rule() { rows_.emplace_back(); }

std::string TextTable::text() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  std::size_t total = 0;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    for (const auto& row : rows_) {
      if (!row.empty()) widths[column] = std::max(widths[column], character_count(row[column]));
    }
    total += widths[column] + (column > 0 ? 2 : 0);
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line = row.empty() ? std::string(total, '-') : "";
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - character_count(row[column]), ' ');
      if (column > 0) line += "  ";
      line += columns_[column] == Align::right ? padding + row[column] : row[column] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace zeroshard::cli
