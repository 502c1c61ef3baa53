// libFuzzer over the text of a manifest: whatever it is, the properties hold.

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/checkpoint/manifest_properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const std::string broken = zeroshard::broken_manifest_property(body);
  if (broken.empty()) return 0;
  std::fprintf(stderr, "broken: %s\n", broken.c_str());
  std::abort();
}
