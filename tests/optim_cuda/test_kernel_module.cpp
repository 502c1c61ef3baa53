// Loading and launching of kernels: errors in our words, and work in the current stream's order.
#include <string>
#include <vector>

#include "tests/optim_cuda/device_arrays.h"
#include "zeroshard/base/error.h"
#include "zeroshard/device/event.h"
#include "zeroshard/device/kernel_module.h"
#include "zeroshard/numeric/arrays.h"

namespace zeroshard {
namespace {

using testing::DeviceBytes;
using testing::kFirst;
using testing::OnGpu;

using GpuKernels = OnGpu;

TEST_F(GpuKernels, TextThatIsNoPtxIsRefusedWithTheDriversWords) {
  KernelModule module("broken", ".version 7.4\n.target sm_80\nnonsense\n", {"none"});
  try {
    module.load(kFirst);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(error.fault().what.find("broken"), std::string::npos) << error.what();
    EXPECT_NE(error.fault().value.find("compute capability"), std::string::npos) << error.what();
  }
}

TEST_F(GpuKernels, AMissingFunctionIsNamed) {
  KernelModule module("empty", ".version 7.4\n.target sm_80\n.address_size 64\n", {"absent"});
  try {
    module.load(kFirst);
    FAIL() << "no error";
  } catch (const StateError& error) {
    EXPECT_NE(error.fault().what.find("absent"), std::string::npos) << error.what();
  }
}

// A stream that is busy for some 50 ms: what is launched behind that work is not done yet when the
// call returns, and comes after it.
TEST_F(GpuKernels, LaunchesFollowTheCurrentStreamAndReturnAtOnce) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30, kCount = 1000;
  load_array_kernels(kFirst);
  const std::vector<float> ones(kCount, 1.0F);
  const Buffer large(kFirst, kBytes), other(kFirst, kBytes);
  const DeviceBytes source = testing::on_device(ones);
  const DeviceBytes sum = testing::on_device(std::vector<float>(kCount, 0.0F));
  const Stream side = Stream::make(kFirst);
  for (const std::int64_t pieces : {std::int64_t{1}, kCount / 10}) {  // as arguments, by a table
    const std::int64_t each = kCount / pieces;
    std::vector<ArrayWrite> writes;
    for (std::int64_t i = 0; i < pieces; ++i) {
      writes.push_back({.to = static_cast<float*>(sum.data()) + i * each,
                        .from = static_cast<float*>(source.data()) + i * each,
                        .count = each,
                        .adds = true});
    }
    for (int i = 0; i < 100; ++i) {
      copy_bytes(side, large.data(), kFirst, other.data(), kFirst, kBytes);
    }
    side.run([&] { write_arrays(kFirst, writes); });
    Event written;
    written.record(side);
    EXPECT_FALSE(written.done());
    written.synchronize();
  }
  std::vector<float> result(kCount);
  sum.copy_to(result.data());
  EXPECT_EQ(result, std::vector<float>(kCount, 2.0F));
}

}  // namespace
}  // namespace zeroshard
