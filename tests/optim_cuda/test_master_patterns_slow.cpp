// Every one of the 2^32 patterns of a master on a GPU, as the host has it (tests/numeric).
#include <bit>

#include "tests/optim_cuda/master_arrays.h"

namespace zeroshard {
namespace {

using testing::HostMasters;

using GpuMasterPatterns = testing::OnGpu;

TEST_F(GpuMasterPatterns, AllOfThem) {
  constexpr std::uint32_t kAtOnce = 1U << 26U;
  HostMasters masters(kAtOnce);
  for (std::uint32_t part = 0; part < 64; ++part) {
    for (std::uint32_t i = 0; i < kAtOnce; ++i) {
      masters.whole[i] = std::bit_cast<float>(part * kAtOnce + i);
    }
    expect_same_on_device(masters);
    ASSERT_FALSE(HasFailure()) << part;
  }
}

}  // namespace
}  // namespace zeroshard
