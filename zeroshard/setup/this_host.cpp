#include "zeroshard/setup/this_host.h"

#include <array>
#include <string_view>

#include <unistd.h>

#include "zeroshard/base/fnv1a.h"

namespace zeroshard {

std::int32_t this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return static_cast<std::int32_t>(Fnv1a().add(std::string_view(name.data())).value());
}

}  // namespace zeroshard
