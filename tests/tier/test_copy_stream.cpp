// Copies between tiers with the CPU and with an accelerator made of threads as the device.
#include "tests/support/fake_accelerator.h"
#include "tests/tier/copy_cases.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

constexpr Device kCopying = FakeAccelerator::device();

void take_a_while() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

INSTANTIATE_TEST_SUITE_P(
    Here, TierCopies,
    testing::Combine(testing::Values(DeviceCase{"cpu", [] {}, kCpu,
                                                [](const Stream& s) { s.run(take_a_while); }},
                                     DeviceCase{
                                         "fake", [] { FakeAccelerator::install(); }, kCopying,
                                         [](const Stream& stream) {
                                           FakeAccelerator::install().launch(stream, take_a_while);
                                         }}),
                     testing::ValuesIn(all_routes())));

class CopiesOfFake : public testing::Test {
 protected:
  FakeAccelerator& fake_ = FakeAccelerator::install();
};

TEST_F(CopiesOfFake, WithARingTheDeviceMeetsPinnedMemoryOnly) {
  StateMemory memory(kCopying, {.pin = false});
  StagingRing ring(memory, size_staging_ring(2, 1024));
  ASSERT_TRUE(ring.pinned());
  CopyStream copies(kCopying, &ring);
  const StateBuffer on_device = memory.allocate(Category::parameters, Tier::device, 10'000);
  const StateBuffer there = memory.allocate(Category::master, Tier::host, 10'000);
  const std::int64_t before = fake_.unpinned_copies();
  const Event up = copies.up({{on_device.data(), there.data(), 10'000, there.pinned()}});
  copies.down({{there.data(), on_device.data(), 10'000, there.pinned()}}, up).synchronize();
  EXPECT_EQ(fake_.unpinned_copies(), before);
}

TEST_F(CopiesOfFake, PinnedMemoryNeedsNoThread) {
  StateMemory memory(kCopying);
  memory.reserve_host(10'240);
  CopyStream copies(kCopying);
  const StateBuffer on_device = memory.allocate(Category::parameters, Tier::device, 10'000);
  const StateBuffer there = memory.allocate(Category::master, Tier::host, 10'000);
  const std::int64_t before = fake_.unpinned_copies();
  copies.up({{on_device.data(), there.data(), 10'000, there.pinned()}}, Stream::current(kCopying))
      .synchronize();
  EXPECT_EQ(fake_.unpinned_copies(), before);
}

// Beyond the end of device memory, which the fake notices while the copy is under way.
TEST_F(CopiesOfFake, AFailureOfTheDeviceComesOutAtTheEnd) {
  for (const bool pin : {true, false}) {
    StateMemory memory(kCopying, {.pin = pin});
    StagingRing ring(memory, size_staging_ring(2, 4096));
    CopyStream copies(kCopying, &ring);
    const StateBuffer on_device = memory.allocate(Category::parameters, Tier::device, 1024);
    const StateBuffer there = memory.allocate(Category::master, Tier::host, 10'000);
    const Event end = copies.up({{on_device.data(), there.data(), 10'000, there.pinned()}});
    EXPECT_THROW(end.synchronize(), InvariantError);
    EXPECT_THROW(copies.synchronize(), InvariantError);
  }
}

TEST(RandomStalls, HoldUpWorkAndAreCounted) {
  const std::int64_t before = stalls_so_far();
  const Stream side = Stream::make(kCpu);
  for (int i = 0; i < 20; ++i) side.run([] {});
  side.synchronize();
  EXPECT_EQ(stalls_so_far(), before) << "nobody asked for them";
  {
    const RandomStalls stalls({.one_in = 1, .at_most = std::chrono::microseconds(10)});
    for (int i = 0; i < 20; ++i) side.run([] {});
    side.synchronize();
  }
  EXPECT_EQ(stalls_so_far(), before + 20);
}

}  // namespace
}  // namespace zeroshard
