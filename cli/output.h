// Standard output that does not lose anything in silence.
#pragma once

#include <string_view>

namespace zeroshard::cli {

// Writes and flushes; a full disk or a closed pipe is a StorageError (exit code 1).
void print(std::string_view text);

}  // namespace zeroshard::cli
