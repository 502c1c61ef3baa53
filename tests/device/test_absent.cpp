// A process without accelerators: the reason is told, and everything of the CPU works. First in the
// program, before the others install one.
#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/cpu_backend.h"

namespace zeroshard {
namespace {

TEST(Absent, TheReasonIsInTheError) {
  if (missing_reason(DeviceKind::cuda).empty()) GTEST_SKIP() << "another test installed a device";
  EXPECT_EQ(missing_reason(DeviceKind::cuda), "accelerators were not loaded");
  explain_missing(DeviceKind::cuda, "the driver is asleep");
  EXPECT_EQ(missing_reason(DeviceKind::cuda), "the driver is asleep");
  try {
    const Buffer buffer({DeviceKind::cuda, 0}, 16);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "[config] this process has no cuda device: the driver is asleep; run on a machine "
                 "that has one, or keep everything on the CPU");
  }
  EXPECT_THROW(Stream::current({DeviceKind::cuda, 0}), ConfigError);
}

TEST(Absent, TheCpuIsAlwaysThereAndInstalledOnce) {
  EXPECT_EQ(missing_reason(DeviceKind::cpu), "");
  EXPECT_THROW(install_backend(DeviceKind::cpu, make_cpu_backend()), InvariantError);
}

}  // namespace
}  // namespace zeroshard
