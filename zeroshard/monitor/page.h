// A page that opens without a network: one file, its style inside, light and dark as the reader's
// system has it.
//
//   page("A run", heading("Loss") + svg.text() + table(rows))
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

// Text with what HTML and XML give a meaning to written out.
std::string escaped(std::string_view text);

std::string page(const std::string& title, const std::string& body);

// The first row is the head; `numbers`: all columns but the first are to the right.
struct PageTable {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> marked = {};  // rows that stand out
};
std::string table(const PageTable& content);

// The style of pictures, for those that are not in a page.
std::string picture_style();

}  // namespace zeroshard
