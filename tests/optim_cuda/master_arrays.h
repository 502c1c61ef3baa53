// Whole masters through all that numeric/masters.h does, on the device and on the host.
#pragma once

#include <vector>

#include "tests/numeric/master_patterns.h"
#include "tests/optim_cuda/device_arrays.h"
#include "zeroshard/numeric/masters.h"

namespace zeroshard::testing {

struct HostMasters {
  std::vector<float> whole, settled, back;
  std::vector<std::uint16_t> parameter, low;

  explicit HostMasters(std::size_t count)
      : whole(count), settled(count), back(count), parameter(count), low(count) {}
};

// Fills the rest of `host` from its whole masters, there and here, and compares.
inline void expect_same_on_device(HostMasters& host, std::int64_t shift = 0) {
  const auto count = static_cast<std::int64_t>(host.whole.size());
  host.settled = host.whole;
  const DeviceBytes from = on_device(host.whole, shift), settled = on_device(host.whole, shift),
                    back = on_device(host.back, shift), parameter = on_device(host.parameter),
                    low = on_device(host.low, shift);
  const MasterHalves there{static_cast<std::uint16_t*>(parameter.data()),
                           static_cast<std::uint16_t*>(low.data())};
  const MasterHalves here{host.parameter.data(), host.low.data()};
  const std::int64_t ties = halve_masters(kCpu, here, host.whole.data(), count);
  EXPECT_EQ(halve_masters(kFirst, there, static_cast<const float*>(from.data()), count), ties);
  EXPECT_EQ(settle_masters(kFirst, static_cast<float*>(settled.data()), count), ties);
  EXPECT_EQ(settle_masters(kCpu, host.settled.data(), count), ties);
  join_masters(kFirst, static_cast<float*>(back.data()), there, count);
  join_masters(kCpu, host.back.data(), here, count);
  HostMasters result(host.whole.size());
  settled.copy_to(result.settled.data());
  back.copy_to(result.back.data());
  parameter.copy_to(result.parameter.data());
  low.copy_to(result.low.data());
  EXPECT_TRUE(same_bits(result.settled, host.settled));
  EXPECT_TRUE(same_bits(result.back, host.back));
  EXPECT_TRUE(same_bits(result.parameter, host.parameter));
  EXPECT_TRUE(same_bits(result.low, host.low));
}

}  // namespace zeroshard::testing
