// libFuzzer over the header of a safetensors file: whatever the bytes, the properties hold.

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/checkpoint/header_properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const std::string broken = zeroshard::broken_header_property(file);
  if (broken.empty()) return 0;
  std::fprintf(stderr, "broken: %s\n", broken.c_str());
  std::abort();
}
