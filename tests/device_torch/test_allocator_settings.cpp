// The setting that limits torch's allocator is torch's own word for it. Torch's CUDA half reads it
// without a GPU, and refuses words that it does not know.
#include <filesystem>
#include <string>

#include <ATen/Context.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "zeroshard/device/allocator_limit.h"

namespace zeroshard {
namespace {

bool open_allocator_of_gpus() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&at::globalContext), &info);
  const auto library = std::filesystem::path(info.dli_fname).replace_filename("libc10_cuda.so");
  return dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

TEST(AllocatorSettings, TorchKnowsTheLimit) {
  if (!open_allocator_of_gpus()) GTEST_SKIP() << "this torch has no CUDA half: " << dlerror();
  EXPECT_NO_THROW(c10::CachingAllocator::setAllocatorSettings(with_memory_fraction("", 1.0 / 3.0)));
  EXPECT_NO_THROW(c10::CachingAllocator::setAllocatorSettings(
      with_memory_fraction("expandable_segments:True, ", 1e-7)));
  EXPECT_THROW(c10::CachingAllocator::setAllocatorSettings(with_memory_fraction("", 1.5)),
               c10::Error)
      << "it is read, and not passed over";
  EXPECT_THROW(c10::CachingAllocator::setAllocatorSettings("no_setting_of_torch:1"), c10::Error);
}

}  // namespace
}  // namespace zeroshard
