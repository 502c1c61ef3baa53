// Kernels where there is no NVIDIA driver: an error in our words, not the linker's.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/device/kernel_module.h"

namespace zeroshard {
namespace {

TEST(NoDriver, LoadingKernelsSaysSo) {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr) {
    GTEST_SKIP() << "there is an NVIDIA driver";
  }
  KernelModule module("none", "", {"none"});
  try {
    module.load({DeviceKind::cuda, 0});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.fault().what, "there is no NVIDIA driver");
    EXPECT_NE(error.fault().remedy, "");
  }
}

TEST(NoDriver, TheCpuHasNoKernels) {
  KernelModule module("none", "", {"none"});
  EXPECT_THROW(module.load(kCpu), InvariantError);
}

}  // namespace
}  // namespace zeroshard
