// The contract over the backends that live in one process.
#include <gtest/gtest.h>

#include "tests/comm/contract.h"
#include "zeroshard/comm/single.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

// 8 MiB in all, so that eight ranks do not take longer than two.
constexpr std::int64_t kLarge = 2 << 20;

TEST(Contract, Single) {
  EXPECT_NO_THROW(contract::everything(*make_single_communicator(), kLarge));
}

class ThreadRanks : public testing::TestWithParam<int> {};

TEST_P(ThreadRanks, Contract) {
  const auto body = [](Communicator& comm) {
    contract::everything(comm, kLarge / comm.world_size());
  };
  EXPECT_NO_THROW(run_ranks(GetParam(), {}, body));
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadRanks, testing::Values(1, 2, 3, 4, 8));

}  // namespace
}  // namespace zeroshard
