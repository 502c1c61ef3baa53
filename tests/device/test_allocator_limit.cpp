// What torch's allocator on a GPU is told, without a GPU: it multiplies the fraction by the
// device's memory, rounds down, and gives out no more.
#include <algorithm>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/base/env_scope.h"
#include "zeroshard/device/allocator_limit.h"

namespace zeroshard::test {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kH200 = 150'110'011'392;

// What the allocator makes of the text.
std::int64_t limit_of(const std::string& settings, std::int64_t total) {
  const std::string name = "per_process_memory_fraction:";
  const auto at = settings.rfind(name);
  EXPECT_NE(at, settings.npos) << settings;
  return static_cast<std::int64_t>(std::stod(settings.substr(at + name.size())) *
                                   static_cast<double>(total));
}

TEST(AllocatorLimit, ComesOutAtTheByte) {
  for (const std::int64_t total : {kH200, 24 * kGiB, kGiB + 1, std::int64_t{3}, 1024 * kGiB - 7}) {
    for (const std::int64_t bytes :
         {std::int64_t{1}, total / 3, total / 7 * 5, total - 1, std::min(10 * kGiB, total - 1)}) {
      if (bytes == 0) continue;
      const auto fraction = limiting_fraction(bytes, total);
      ASSERT_TRUE(fraction.has_value());
      EXPECT_LT(*fraction, 1.0);
      EXPECT_EQ(limit_of(with_memory_fraction("", *fraction), total), bytes) << total;
    }
  }
}

TEST(AllocatorLimit, IsNoneWhereTheDeviceHasNoMore) {
  EXPECT_EQ(limiting_fraction(24 * kGiB, 24 * kGiB), std::nullopt);
  EXPECT_EQ(limiting_fraction(25 * kGiB, 24 * kGiB), std::nullopt);
}

TEST(AllocatorLimit, KeepsWhatTheUserHasSet) {
  const std::string ours = "per_process_memory_fraction:0.25";
  EXPECT_EQ(with_memory_fraction("", 0.25), ours);
  EXPECT_EQ(with_memory_fraction("expandable_segments:True", 0.25),
            "expandable_segments:True," + ours);
  EXPECT_EQ(
      with_memory_fraction("roundup_power2_divisions:[256:1,>:2] , max_split_size_mb:100, ", 0.25),
      "roundup_power2_divisions:[256:1,>:2],max_split_size_mb:100," + ours);
}

TEST(AllocatorLimit, TheSmallerOfTwoLimitsCounts) {
  const std::string smaller = "per_process_memory_fraction: 0.125, expandable_segments:True";
  EXPECT_EQ(with_memory_fraction(smaller, 0.25), smaller);
  EXPECT_EQ(with_memory_fraction("per_process_memory_fraction : 0.5", 0.25),
            "per_process_memory_fraction:0.5,per_process_memory_fraction:0.25")
      << "torch takes the last one";
  EXPECT_EQ(with_memory_fraction(
                "per_process_memory_fraction:0.125,per_process_memory_fraction:0.5", 0.25),
            "per_process_memory_fraction:0.125,per_process_memory_fraction:0.5,"
            "per_process_memory_fraction:0.25");
}

// Both variables as they are before, and what they are after.
struct Variables {
  std::optional<std::string> newer, older;
  bool operator==(const Variables&) const = default;
};

Variables limited(const char* newer, const char* older) {
  const EnvScope first(EnvVar::kTorchAllocator, newer), second(EnvVar::kTorchCudaAlloc, older);
  limit_allocator(4, 16);
  return {env_text(EnvVar::kTorchAllocator), env_text(EnvVar::kTorchCudaAlloc)};
}

TEST(AllocatorLimit, GoesWhereTorchLooks) {
  const std::string ours = "per_process_memory_fraction:0.28125";
  EXPECT_EQ(limited(nullptr, nullptr), (Variables{ours, {}}));
  EXPECT_EQ(limited("a:1", nullptr), (Variables{"a:1," + ours, {}}));
  EXPECT_EQ(limited(nullptr, "b:2"), (Variables{{}, "b:2," + ours}));
  EXPECT_EQ(limited("a:1", "b:2"), (Variables{"a:1," + ours, "b:2," + ours}));
  EXPECT_EQ(limited(nullptr, ""), (Variables{{}, ours}))
      << "torch reads the older one where it is there, if empty";
}

TEST(AllocatorLimit, SaysWhereNothingWouldHoldToIt) {
  testing::internal::CaptureStderr();
  limited(nullptr, "backend : cudaMallocAsync");
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "the allocator that PYTORCH_CUDA_ALLOC_CONF asks for (cudaMallocAsync)"),
            std::string::npos);
  testing::internal::CaptureStderr();
  limited("backend:native", nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace zeroshard::test
