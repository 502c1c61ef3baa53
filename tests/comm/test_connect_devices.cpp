// Which way device memory takes: by NCCL, or through the host.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/comm/contract.h"
#include "tests/comm/fake_nccl.h"
#include "tests/comm/rank_values.h"
#include "tests/support/fake_accelerator.h"
#include "zeroshard/comm/connect_devices.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

constexpr Device kGpu = FakeAccelerator::device();

RankDevice gpu(const std::string& identity, int version = 23007) {
  return {.identity = identity, .nccl_version = version, .wants_nccl = true};
}

std::vector<RankDevice> gpus(int count) {
  std::vector<RankDevice> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(gpu("GPU " + std::to_string(rank)));
  return ranks;
}

TEST(ChooseTransport, NcclWhereEachRankHasAGpu) {
  for (int count = 2; count <= 8; ++count) EXPECT_TRUE(choose_transport(gpus(count)).nccl);
}

TEST(ChooseTransport, NothingIsSaidWhereNobodyAsked) {
  std::vector<RankDevice> ranks = gpus(4);
  for (RankDevice& rank : ranks) rank.wants_nccl = false;
  EXPECT_FALSE(choose_transport(ranks).nccl);
  EXPECT_EQ(choose_transport(ranks).why_not, "");
}

TEST(ChooseTransport, OneRankThatDoesNotWantItIsEnough) {
  std::vector<RankDevice> ranks = gpus(4);
  ranks[2].wants_nccl = false;
  EXPECT_FALSE(choose_transport(ranks).nccl);
}

TEST(ChooseTransport, ARankWithoutTheLibraryIsEnough) {
  std::vector<RankDevice> ranks = gpus(4);
  ranks[3].nccl_version = 0;
  EXPECT_FALSE(choose_transport(ranks).nccl);
  EXPECT_EQ(choose_transport(ranks).why_not, "not every rank has loaded NCCL");
}

TEST(ChooseTransport, RanksThatShareAGpu) {
  std::vector<RankDevice> ranks{gpu("A"), gpu("B"), gpu("A"), gpu("B")};
  EXPECT_EQ(choose_transport(ranks).why_not,
            "4 ranks share 2 GPUs, which NCCL refuses unless NCCL_MULTI_RANK_GPU_ENABLE=1");
  for (RankDevice& rank : ranks) rank.may_share = true;
  EXPECT_TRUE(choose_transport(ranks).nccl);
  ranks[1].nccl_version = 22809;
  EXPECT_EQ(choose_transport(ranks).why_not,
            "4 ranks share 2 GPUs, which NCCL can from 2.30 on, and here is 2.28.9");
}

class ConnectDevices : public testing::Test {
 protected:
  void SetUp() override { FakeAccelerator::install(); }
  void TearDown() override {
    unsetenv("ZEROSHARD_NCCL");
    FakeAccelerator::install().share_among_ranks(false);
  }

  // Whether what two ranks send goes by NCCL, and to the right place in any case.
  static bool takes_nccl() {
    std::vector<char> took(2);
    run_ranks(2, {}, [&](Communicator& threads) {
      const NcclOptions options{.library = &FakeNccl::library(), .write = write_arrays_on_fake};
      const int alive = FakeNccl::alive();
      const auto comm = connect_devices(threads.make_sibling(), kGpu, options);
      contract::all_gather(*comm, 100, DType::bf16, kGpu);
      contract::reduce_scatter(*comm, 100, DType::bf16, DType::fp32, kGpu);
      took[static_cast<std::size_t>(threads.rank())] = FakeNccl::alive() > alive;
      threads.barrier("seen").wait();
    });
    EXPECT_EQ(took[0], took[1]);
    return took[0] != 0;
  }
};

TEST_F(ConnectDevices, GoesThroughTheHostUnlessAskedOtherwise) {
  EXPECT_FALSE(takes_nccl());
  setenv("ZEROSHARD_NCCL", "1", 1);
  EXPECT_TRUE(takes_nccl());
  setenv("ZEROSHARD_NCCL", "0", 1);
  EXPECT_FALSE(takes_nccl());
}

TEST_F(ConnectDevices, RanksOnOneDeviceGoThroughTheHost) {
  setenv("ZEROSHARD_NCCL", "1", 1);
  FakeAccelerator::install().share_among_ranks(true);
  EXPECT_FALSE(takes_nccl());
}

}  // namespace
}  // namespace zeroshard
