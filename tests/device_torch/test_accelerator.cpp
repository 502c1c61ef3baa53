// The cases of every device, on the first real accelerator.
#include <algorithm>
#include <thread>

#include "tests/device/device_cases.h"
#include "tests/device_torch/accelerator_case.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

INSTANTIATE_TEST_SUITE_P(Real, OnDevice, testing::Values(first_accelerator()));

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
