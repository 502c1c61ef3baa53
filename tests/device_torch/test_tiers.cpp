// The host tier, copies between tiers, and one rank's gathers, with a real accelerator.
#include <cstring>

#include "tests/comm/contract.h"
#include "tests/device_torch/accelerator_case.h"
#include "tests/tier/copy_cases.h"
#include "zeroshard/comm/single.h"

namespace zeroshard {
namespace {

INSTANTIATE_TEST_SUITE_P(Real, TierCopies,
                         testing::Combine(testing::Values(first_accelerator()),
                                          testing::ValuesIn(all_routes())));

class TiersOnAccelerator : public testing::Test {
 protected:
  void SetUp() override { load_or_skip(); }
  static bool is_pinned(const void* data) {
    return backend_of(DeviceKind::cuda).is_pinned(kFirst.index, data);
  }
};

TEST_F(TiersOnAccelerator, TheArenaIsRegisteredAsAWholeUntilItsEnd) {
  constexpr std::int64_t kBytes = (std::int64_t{1} << 28) + 256;
  for (int round = 0; round < 3; ++round) {  // a second registration of the same pages must work
    StateMemory memory(kFirst);
    memory.reserve_host(kBytes);
    const StateBuffer first = memory.allocate(Category::master, Tier::host, 1 << 20);
    const StateBuffer rest = memory.allocate(Category::moments, Tier::host, kBytes - (1 << 20));
    const StateBuffer beyond = memory.allocate(Category::moments, Tier::host, 100'000);
    for (const StateBuffer* state : {&first, &rest, &beyond}) {
      EXPECT_TRUE(state->pinned());
      EXPECT_TRUE(is_pinned(state->data()));
      EXPECT_TRUE(is_pinned(static_cast<std::byte*>(state->data()) + state->bytes() - 1));
    }
  }
}

TEST_F(TiersOnAccelerator, WithoutPinningOnlyRingsAreRegistered) {
  StateMemory memory(kFirst, {.pin = false});
  memory.reserve_host(1 << 20);
  const StateBuffer state = memory.allocate(Category::master, Tier::host, 1 << 20);
  const StateBuffer ring = memory.allocate_ring(3 * 4096);
  EXPECT_FALSE(is_pinned(state.data()));
  EXPECT_TRUE(ring.pinned());
  EXPECT_TRUE(is_pinned(ring.data()));
}

// A copy from pinned memory returns before the device has come to it; 256 MiB take some 5 ms.
TEST_F(TiersOnAccelerator, AStraightCopyLetsTheHostGoOn) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 28;
  StateMemory memory(kFirst);
  memory.reserve_host(kBytes);
  const StateBuffer there = memory.allocate(Category::master, Tier::host, kBytes);
  const StateBuffer to = memory.allocate(Category::parameters, Tier::device, kBytes);
  CopyStream copies(kFirst);
  const Event end =
      copies.up({{to.data(), there.data(), kBytes, there.pinned()}}, Stream::current(kFirst));
  EXPECT_FALSE(end.done());
  end.synchronize();
}

TEST_F(TiersOnAccelerator, UnusedMemoryGoesBackToTheDriver) {
  StateMemory memory(kFirst);
  memory.allocate(Category::parameters, Tier::device, std::int64_t{1} << 30);
  EXPECT_NO_THROW(memory.trim_device());
  EXPECT_NE(memory.allocate(Category::parameters, Tier::device, 1 << 20).data(), nullptr);
}

TEST_F(TiersOnAccelerator, OneRankKeepsTheContract) {
  EXPECT_NO_THROW(contract::everything(*make_single_communicator(kFirst), 4 << 20, kFirst));
}

TEST_F(TiersOnAccelerator, StallsHoldUpTheStream) {
  const RandomStalls stalls({.one_in = 1, .at_most = std::chrono::microseconds(5000)});
  const std::int64_t before = stalls_so_far();
  const Stream side = Stream::make(kFirst);
  for (int i = 0; i < 10; ++i) stall(side);
  side.synchronize();
  EXPECT_EQ(stalls_so_far(), before + 10);
}

}  // namespace
}  // namespace zeroshard
