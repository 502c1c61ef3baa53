// The fuzzer's properties, over its seeds and a fixed crowd of damaged ones: no clang needed.

#include <random>

#include "tests/checkpoint/checkpoint_support.h"
#include "tests/checkpoint/manifest_properties.h"

namespace zeroshard {
namespace {

TEST(ManifestProperties, HoldForTheSeedsAndForDamagedOnes) {
  std::mt19937 random(11);
  int seeds = 0;
  const std::filesystem::path folder =
      std::filesystem::path(ZEROSHARD_SOURCE_DIR) / "tests/fuzz/fuzz_manifest";
  for (const auto& seed : std::filesystem::directory_iterator(folder)) {
    const std::string sound = bytes_of_file(seed.path());
    ++seeds;
    EXPECT_EQ(broken_manifest_property(sound), "") << seed.path();
    for (int round = 0; round < 2000; ++round) {
      std::string damaged = sound;
      for (int change = 1 + static_cast<int>(random() % 3); change > 0; --change) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      if (random() % 8 == 0) damaged.resize(random() % (damaged.size() + 1));
      ASSERT_EQ(broken_manifest_property(damaged), "") << testing::PrintToString(damaged);
    }
  }
  EXPECT_EQ(seeds, 4);
}

TEST(ManifestProperties, WouldNoticeAPieceThatIsMisplaced) {
  Manifest manifest;
  manifest.files = {{"file", 100, {1}}};
  StoredTensor tensor{.name = "a", .dtype = DType::fp32, .shape = {4}};
  tensor.states["value"] = {tensor.dtype, {{0, Span(0, 4), 88}}};
  manifest.tensors = {tensor};
  EXPECT_EQ(misplaced(manifest), "a piece outside");
  manifest.tensors[0].states["value"].pieces[0].offset = 84;
  EXPECT_EQ(misplaced(manifest), "");
  EXPECT_EQ(described_twice(manifest), "");
  manifest.blobs = {{"blob", std::nullopt, 0, 0, 84}};
  EXPECT_EQ(described_twice(manifest), "");
  manifest.blobs[0].bytes = 85;
  EXPECT_EQ(described_twice(manifest), "a blob over others");
  manifest.files[0].name = "../file";
  EXPECT_EQ(misplaced(manifest), "a file outside");
}

}  // namespace
}  // namespace zeroshard
