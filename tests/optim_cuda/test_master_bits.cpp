// Masters into halves and back on a GPU give the host's bits and numbers of ties.
#include <bit>

#include "tests/numeric/float_array.h"
#include "tests/optim_cuda/device_arrays.h"
#include "tests/optim_cuda/master_arrays.h"

namespace zeroshard {
namespace {

using testing::any_float;
using testing::DeviceBytes;
using testing::HostMasters;
using testing::kFirst;
using testing::on_device;
using testing::Random;

using GpuMasters = testing::OnGpu;

TEST_F(GpuMasters, AnyBitsAtAnyPlace) {
  Random random(111);
  for (const std::int64_t count : {1, 3, 255, 8192, 8193, 100'003}) {
    HostMasters masters(static_cast<std::size_t>(count));
    for (float& master : masters.whole) master = any_float(random);
    for (std::size_t i = 0; i < masters.whole.size(); i += 7) {
      const std::uint32_t tie = (random.bits() & 0xFFFE0000U) | 0x8000U;
      masters.whole[i] = std::bit_cast<float>(tie);
    }
    expect_same_on_device(masters, random.between(0, 5));
  }
}

TEST_F(GpuMasters, LowHalvesOfWrittenParametersAreForgotten) {
  Random random(112);
  std::vector<std::uint16_t> before(50'001), low(before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    before[i] = static_cast<std::uint16_t>(random.bits());
    low[i] = static_cast<std::uint16_t>(random.bits());
  }
  std::vector<std::uint16_t> parameter = before, result = low;
  for (std::size_t i = 0; i < parameter.size(); i += 3) parameter[i] ^= random.bits() & 1U;
  const auto count = static_cast<std::int64_t>(before.size());
  const DeviceBytes there = on_device(parameter), low_there = on_device(low),
                    before_there = on_device(before);
  const auto halves = [](const DeviceBytes& a) { return static_cast<std::uint16_t*>(a.data()); };
  forget_low_halves(kFirst, {halves(there), halves(low_there)}, halves(before_there), count);
  forget_low_halves(kCpu, {parameter.data(), low.data()}, before.data(), count);
  low_there.copy_to(result.data());
  EXPECT_EQ(result, low);
}

}  // namespace
}  // namespace zeroshard
