// Names that are read from a file and become parts of a path: they must stay in their folder.
#pragma once

#include <string_view>

namespace zeroshard {

// A file of the folder itself.
inline bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace zeroshard
