#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/comm/contract.h"
#include "tests/comm_c10d/thread_group.h"
#include "tests/support/count_threads.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/c10d.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kLarge = 2 << 20;

// Runs the body as each rank; what each rank's body threw, or "".
std::vector<std::string> run_ranks_over_a_group(int world_size, const C10dOptions& options,
                                                const std::function<void(Communicator&)>& body) {
  const auto box = std::make_shared<testing::Postbox>();
  std::vector<std::string> said(static_cast<std::size_t>(world_size));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back([&, rank] {
      auto group = c10::make_intrusive<testing::ThreadGroup>(rank, world_size, box);
      try {
        const auto comm = make_c10d_communicator(std::move(group), options);
        body(*comm);
      } catch (const std::exception& error) {
        said[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return said;
}

// Ranks, and whether they share memory.
class C10dRanks : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(C10dRanks, KeepTheContract) {
  const auto [ranks, shared] = GetParam();
  const auto said = run_ranks_over_a_group(
      ranks, {.shares_memory = shared},
      [](Communicator& comm) { contract::everything(comm, kLarge / comm.world_size()); });
  EXPECT_EQ(said, std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

INSTANTIATE_TEST_SUITE_P(Ranks, C10dRanks,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::Bool()));

TEST(C10d, RanksThatDoDifferentThingsBothSaySo) {
  const auto said = run_ranks_over_a_group(2, {}, [](Communicator& comm) {
    float value = 1;
    const Piece piece{&value, 1, DType::fp32};
    comm.all_reduce(piece, ReduceOp::sum, comm.rank() == 0 ? "block.1" : "block.2").wait();
  });
  for (const std::string& words : said) {
    EXPECT_NE(words.find("block.1"), std::string::npos) << words;
    EXPECT_NE(words.find("block.2"), std::string::npos) << words;
  }
}

TEST(C10d, ARankThatDoesNotComeIsNamedAfterTheTimeout) {
  const C10dOptions soon{.comm = {.timeout = std::chrono::milliseconds(200)}};
  const auto said = run_ranks_over_a_group(2, soon, [](Communicator& comm) {
    if (comm.rank() == 0) comm.barrier("start").wait();
  });
  EXPECT_NE(said[0].find("rank 1"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("start"), std::string::npos) << said[0];
  EXPECT_EQ(said[1], "");
}

TEST(C10d, AfterAFailureEveryOperationFailsAlike) {
  const C10dOptions soon{.comm = {.timeout = std::chrono::milliseconds(100)}};
  const auto said = run_ranks_over_a_group(2, soon, [](Communicator& comm) {
    if (comm.rank() != 0) return;
    const Handle first = comm.barrier("first"), second = comm.barrier("second");
    EXPECT_THROW(first.wait(), CommError);
    second.wait();
  });
  EXPECT_NE(said[0].find("\"first\""), std::string::npos) << said[0];
}

// An engine makes siblings of its own and leaves the caller's communicator alone.
TEST(C10d, SiblingsThatNobodyUsesHaveNoThreads) {
  const auto said = run_ranks_over_a_group(1, {}, [](Communicator& comm) {
    const int before = threads_of_this_process();
    std::vector<std::unique_ptr<Communicator>> siblings;
    for (int i = 0; i < 20; ++i) siblings.push_back(comm.make_sibling());
    EXPECT_EQ(threads_of_this_process(), before);
    siblings.back()->barrier("used").wait();
    EXPECT_EQ(threads_of_this_process(), before + 1);
  });
  EXPECT_EQ(said[0], "");
}

TEST(C10d, MoreSiblingsThanAGroupHasTagsForAreRefused) {
  const auto said = run_ranks_over_a_group(1, {}, [](Communicator& comm) {
    for (int i = 0; i < 2000; ++i) comm.make_sibling();
  });
  EXPECT_NE(said[0].find("no lane left"), std::string::npos) << said[0];
}

}  // namespace
}  // namespace zeroshard
