// Siblings cost nothing until they are used.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/comm/carry_support.h"
#include "tests/comm/rank_values.h"
#include "tests/support/count_threads.h"
#include "tests/support/fake_accelerator.h"

namespace zeroshard {
namespace {

std::vector<std::unique_ptr<Communicator>> twenty_siblings(Communicator& comm) {
  std::vector<std::unique_ptr<Communicator>> siblings;
  for (int i = 0; i < 20; ++i) siblings.push_back(comm.make_sibling());
  return siblings;
}

TEST(Siblings, OfThreadRanksHaveNoThreadUntilTheyAreUsed) {
  run_ranks(1, {}, [](Communicator& comm) {
    const int before = threads_of_this_process();
    const auto siblings = twenty_siblings(comm);
    EXPECT_EQ(threads_of_this_process(), before);
    siblings.back()->barrier("used").wait();
    EXPECT_EQ(threads_of_this_process(), before + 1);
  });
}

// Host memory needs neither a thread nor pinned memory; device memory needs both.
TEST(Siblings, ThatCarryHaveNoThreadUntilTheyCarrySomething) {
  FakeAccelerator::install();
  run_carrying_ranks(1, {}, [](Communicator& comm, TrafficLedger&) {
    comm.barrier("start").wait();  // the inner communicator's own thread
    const int before = threads_of_this_process();
    const auto siblings = twenty_siblings(comm);
    EXPECT_EQ(threads_of_this_process(), before);
    siblings.back()->barrier("host").wait();
    EXPECT_EQ(threads_of_this_process(), before + 1) << "the inner communicator's";
    RankBuffer buffer(10, DType::fp32, FakeAccelerator::device());
    siblings.back()->broadcast(buffer.piece(), 0, "device").wait();
    EXPECT_GT(threads_of_this_process(), before + 1);
  });
}

}  // namespace
}  // namespace zeroshard
