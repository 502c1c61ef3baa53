// What went wrong with a file, and what to do, from the system's error number.
#pragma once

#include <filesystem>
#include <string_view>

#include "zeroshard/base/error.h"

namespace zeroshard {

// `what: path (the system's words); remedy`, the remedy chosen by the error number.
StorageError file_error(std::string_view what, const std::filesystem::path& path, int error_number);

}  // namespace zeroshard
