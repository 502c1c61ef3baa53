// The fuzzer's properties, over its seeds and a fixed crowd of damaged ones: no clang needed.

#include <random>

#include "tests/checkpoint/checkpoint_support.h"
#include "tests/checkpoint/header_properties.h"

namespace zeroshard {
namespace {

TEST(SafetensorsProperties, HoldForTheSeedsAndForDamagedOnes) {
  std::mt19937 random(11);
  int seeds = 0;
  const std::filesystem::path folder =
      std::filesystem::path(ZEROSHARD_SOURCE_DIR) / "tests/fuzz/fuzz_safetensors";
  for (const auto& seed : std::filesystem::directory_iterator(folder)) {
    const std::string sound = bytes_of_file(seed.path());
    ++seeds;
    EXPECT_EQ(broken_header_property(sound), "") << seed.path();
    for (int round = 0; round < 3000; ++round) {
      std::string damaged = sound;
      for (int change = 1 + static_cast<int>(random() % 3); change > 0; --change) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      if (random() % 4 == 0) damaged.resize(random() % (damaged.size() + 1));
      if (damaged.empty()) damaged = "x";
      ASSERT_EQ(broken_header_property(damaged), "") << testing::PrintToString(damaged);
    }
  }
  EXPECT_EQ(seeds, 6);
}

TEST(SafetensorsProperties, WouldNoticeAMisplacedTensor) {
  SafetensorsHeader header;
  header.tensors = {{"a", DType::uint8, {4}, 0, 4}, {"b", DType::uint8, {4}, 2, 6}};
  EXPECT_EQ(misplaced(header, 100), "place");
  header.tensors = {{"a", DType::fp32, {4}, 0, 4}};
  EXPECT_EQ(misplaced(header, 100), "size");
}

}  // namespace
}  // namespace zeroshard
