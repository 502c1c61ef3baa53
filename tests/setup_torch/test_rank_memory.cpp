// What ranks may take of a device: a part where they share it, all where each has one.
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/fake_accelerator.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/planner/overheads.h"
#include "zeroshard/setup/rank_memory.h"

namespace zeroshard {
namespace {

// Each rank calls its device the first, as where CUDA_VISIBLE_DEVICES names one for each.
std::int64_t device_bytes_of(int ranks) {
  std::int64_t bytes = 0;
  run_ranks(ranks, {}, [&](Communicator& comm) {
    const RankMemory memory = agree_on_memory(FakeAccelerator::device(), {}, comm);
    EXPECT_EQ(memory.ranks_on_host, ranks);
    ASSERT_TRUE(memory.limits.device);
    if (comm.rank() == 0) bytes = *memory.limits.device;
  });
  return bytes - process_overheads({.accelerator = true}).at_start.device_bytes;
}

TEST(RankMemory, OnlyRanksOnOneDeviceShareItsMemory) {
  FakeAccelerator& fake = FakeAccelerator::install();
  EXPECT_EQ(device_bytes_of(2), FakeAccelerator::kCapacity) << "each has one of its own";
  fake.share_among_ranks(true);
  EXPECT_EQ(device_bytes_of(2), FakeAccelerator::kCapacity / 2);
  fake.share_among_ranks(false);
}

}  // namespace
}  // namespace zeroshard
