// libFuzzer over the config reader and `explain`: whatever the bytes, the properties hold.

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/config/reader_properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string broken = zeroshard::config::broken_property(text);
  if (broken.empty()) return 0;
  std::fprintf(stderr, "broken: %s\n", broken.c_str());
  std::abort();
}
