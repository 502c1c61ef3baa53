// What this machine calls itself, for messages.
#pragma once

#include <array>
#include <string>

#include <unistd.h>

namespace zeroshard {

inline std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

}  // namespace zeroshard
