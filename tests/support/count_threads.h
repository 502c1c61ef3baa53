// How many threads this process has, as the kernel counts them.
#pragma once

#include <filesystem>
#include <iterator>

namespace zeroshard {

inline int threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

}  // namespace zeroshard
