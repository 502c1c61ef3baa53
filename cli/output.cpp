#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "zeroshard/base/error.h"

namespace zeroshard::cli {

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return;
  throw StorageError({.what = "cannot write to standard output",
                      .value = std::strerror(errno),
                      .remedy = "check where it is redirected to"});
}

}  // namespace zeroshard::cli
