// The cases of every device, on the first real accelerator.
#include <algorithm>
#include <thread>

#include "tests/device/device_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/device/accelerators.h"

namespace zeroshard {
namespace {

constexpr Device kFirst{DeviceKind::cuda, 0};

void load_or_skip() {
  if (load_accelerators() > 0) return;
  GTEST_SKIP() << "needs an accelerator: " << missing_reason(DeviceKind::cuda);
}

// 64 GiB within the device's own memory: more than 25 ms at 5 TB/s, read and write.
void occupy(const Stream& stream) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 28;
  // Never destroyed: the driver may be gone by the time static variables are.
  static const Buffer& from = *new Buffer(kFirst, kBytes);
  static const Buffer& to = *new Buffer(kFirst, kBytes);
  for (int i = 0; i < 256; ++i) {
    copy_bytes(stream, to.data(), kFirst, from.data(), kFirst, kBytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Real, OnDevice,
                         testing::Values(DeviceCase{"cuda", load_or_skip, kFirst, occupy}));

TEST(Accelerators, LoadingAgainAnswersTheSame) {
  std::vector<int> answers(4);
  std::vector<std::thread> threads;
  for (int& answer : answers) threads.emplace_back([&] { answer = load_accelerators(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers, std::vector<int>(4, load_accelerators()));
}

TEST(Accelerators, WithoutOneTheReasonIsTold) {
  if (load_accelerators() > 0) GTEST_SKIP() << "there is an accelerator";
  const std::string reason = missing_reason(DeviceKind::cuda);
  EXPECT_NE(reason, "");
  EXPECT_NE(reason, "accelerators were not loaded");
  try {
    Stream::current(kFirst);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.fault().value, reason);
    EXPECT_NE(error.fault().remedy, "");
  }
}

TEST(Accelerators, OutOfMemoryIsAStorageErrorAndTheDeviceGoesOn) {
  load_or_skip();
  if (load_accelerators() == 0) return;
  EXPECT_THROW(Buffer(kFirst, std::int64_t{1} << 46), StorageError);
  EXPECT_NE(Buffer(kFirst, 1 << 20).data(), nullptr);
}

}  // namespace
}  // namespace zeroshard
