// Which way device memory takes: by NCCL, or through the host.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/comm/contract.h"
#include "tests/comm/fake_nccl.h"
#include "tests/comm/rank_values.h"
#include "tests/support/fake_accelerator.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/comm/connect_devices.h"
#include "zeroshard/comm/ledger.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

constexpr Device kGpu = FakeAccelerator::device();

RankDevice gpu(const std::string& identity, int version = 23007) {
  return {.identity = identity, .nccl_version = version};
}

std::vector<RankDevice> gpus(int count, NcclWish wish = NcclWish::automatic) {
  std::vector<RankDevice> ranks;
  for (int rank = 0; rank < count; ++rank) {
    ranks.push_back(gpu("GPU " + std::to_string(rank)));
    ranks.back().wish = wish;
  }
  return ranks;
}

TEST(ChooseTransport, NcclByItselfWhereEachRankHasAGpu) {
  for (int count = 2; count <= 8; ++count) {
    const TransportChoice choice = choose_transport(gpus(count), true);
    EXPECT_TRUE(choice.nccl);
    EXPECT_FALSE(choice.insists);
    EXPECT_EQ(choice.why_not, "");
  }
}

TEST(ChooseTransport, NotByItselfWhileItIsHeldBack) {
  const TransportChoice choice = choose_transport(gpus(4), false);
  EXPECT_FALSE(choice.nccl);
  EXPECT_FALSE(choice.insists);
  EXPECT_EQ(choice.why_not,
            "NCCL is not taken by itself yet, since it has not been run on GPUs; ZEROSHARD_NCCL=1 "
            "takes it");
  EXPECT_EQ(choose_transport(gpus(4)).nccl, kNcclHasRunOnGpus);
}

TEST(ChooseTransport, WhoInsistsGetsIt) {
  for (const bool may_choose : {false, true}) {
    for (int count = 2; count <= 8; ++count) {
      std::vector<RankDevice> ranks = gpus(count);
      ranks.back().wish = NcclWish::insist;  // one is enough: the others leave it open
      const TransportChoice choice = choose_transport(ranks, may_choose);
      EXPECT_TRUE(choice.nccl);
      EXPECT_TRUE(choice.insists);
    }
  }
}

TEST(ChooseTransport, OneRankThatRefusesIsEnough) {
  std::vector<RankDevice> ranks = gpus(4);
  ranks[2].wish = NcclWish::never;
  const TransportChoice choice = choose_transport(ranks, true);
  EXPECT_FALSE(choice.nccl);
  EXPECT_EQ(choice.why_not, "") << "somebody wants it so";
  ranks[0].wish = NcclWish::insist;
  const TransportChoice refused = choose_transport(ranks, true);
  EXPECT_FALSE(refused.nccl);
  EXPECT_TRUE(refused.insists);
  EXPECT_EQ(refused.why_not, "it is 0 on rank 2");
}

TEST(ChooseTransport, AllRanksHaveOneLibrary) {
  for (const NcclWish wish : {NcclWish::automatic, NcclWish::insist}) {
    std::vector<RankDevice> ranks = gpus(4, wish);
    ranks[3].nccl_version = 0;
    EXPECT_FALSE(choose_transport(ranks, true).nccl);
    EXPECT_EQ(choose_transport(ranks, true).why_not, "not every rank has loaded NCCL");
    ranks[3].nccl_version = 22809;
    EXPECT_FALSE(choose_transport(ranks, true).nccl);
    EXPECT_EQ(
        choose_transport(ranks, true).why_not,
        "ranks have loaded different versions of NCCL, 2.28.9 on rank 3 and 2.30.7 on rank 0");
  }
}

TEST(ChooseTransport, RanksThatShareAGpu) {
  std::vector<RankDevice> ranks{gpu("A"), gpu("B"), gpu("A"), gpu("B")};
  EXPECT_FALSE(choose_transport(ranks, true).nccl);
  EXPECT_EQ(choose_transport(ranks, true).why_not,
            "4 ranks share 2 GPUs, which NCCL refuses unless NCCL_MULTI_RANK_GPU_ENABLE=1");
  for (RankDevice& rank : ranks) rank.may_share = true;
  EXPECT_TRUE(choose_transport(ranks, true).nccl);
  for (RankDevice& rank : ranks) rank.nccl_version = 22809;
  EXPECT_EQ(choose_transport(ranks, true).why_not,
            "4 ranks share 2 GPUs, which NCCL can from 2.30 on, and here is 2.28.9");
}

NcclOptions fake_options(const CommOptions& comm = {}) {
  return {.comm = comm, .library = &FakeNccl::library(), .write = write_arrays_on_fake};
}

class ConnectDevices : public testing::Test {
 protected:
  using Clock = std::chrono::steady_clock;

  void SetUp() override { FakeAccelerator::install(); }
  void TearDown() override {
    unsetenv("ZEROSHARD_NCCL");
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
    FakeNccl::behave();
    FakeAccelerator::install().share_among_ranks(false);
    const auto end = Clock::now() + std::chrono::seconds(10);
    while (FakeNccl::alive() != alive_before_ && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(FakeNccl::alive(), alive_before_) << "communicators that nobody has ended";
    EXPECT_EQ(FakeNccl::aborted() - aborted_before_, aborted_);
  }

  struct Outcome {
    bool nccl = false;
    std::string said = {};  // all that was logged, with its level
  };

  // Whether what ranks send goes by NCCL, and to the right place in any case.
  Outcome connect(int ranks, bool may_choose, const NcclOptions& options = fake_options()) {
    Outcome outcome;
    const LogScope log({.level = LogLevel::info, .rank = LogSettings::kAllRanks},
                       [&](LogLevel level, std::string_view line) {
                         outcome.said += std::string(name_of(level)) + " " + std::string(line);
                       });
    std::vector<char> took(static_cast<std::size_t>(ranks));
    run_ranks(ranks, {.timeout = std::chrono::seconds(20)}, [&](Communicator& threads) {
      const int alive = FakeNccl::alive();
      const auto comm = connect_devices(threads.make_sibling(), kGpu, options, may_choose);
      threads.barrier("all are connected").wait();
      const auto at = static_cast<std::size_t>(threads.rank());
      took[at] = FakeNccl::alive() > alive;
      TrafficLedger ledger;
      contract::all_gather(*count_traffic(*comm, ledger), 100, DType::bf16, kGpu);
      EXPECT_EQ(ledger.entries().size(), 1U) << "the trial is in no ledger";
      contract::reduce_scatter(*comm, 100, DType::bf16, DType::fp32, kGpu);
      contract::broadcast(*comm, 100, DType::fp32, kGpu);
      threads.barrier("all have sent").wait();
    });
    for (const char each : took) EXPECT_EQ(each, took.front());
    outcome.nccl = took.front() != 0;
    return outcome;
  }

  // A trial that is to fail: all ranks go through the host, and one says why.
  void expect_host_after(const std::string& words, const NcclOptions& options = fake_options()) {
    constexpr int kRanks = 3;
    aborted_ += kRanks;
    const auto begin = Clock::now();
    const Outcome outcome = connect(kRanks, true, options);
    EXPECT_FALSE(outcome.nccl);
    EXPECT_EQ(outcome.said,
              "warning zeroshard[0]: warning: what GPUs send goes through host memory: NCCL was "
              "tried, and on rank " +
                  words +
                  "; NCCL_DEBUG=WARN says more, and NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, "
                  "NCCL_IB_DISABLE=1 or NCCL_SOCKET_IFNAME tells which way is broken");
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  }

  int aborted_ = 0;  // communicators that a test's trials give up

 private:
  const int alive_before_ = FakeNccl::alive();
  const int aborted_before_ = FakeNccl::aborted();
};

TEST_F(ConnectDevices, ByItselfWhereItMay) {
  const Outcome chosen = connect(2, true);
  EXPECT_TRUE(chosen.nccl);
  EXPECT_EQ(chosen.said, "");
  const Outcome held_back = connect(2, false);
  EXPECT_FALSE(held_back.nccl);
  EXPECT_EQ(
      held_back.said,
      "info zeroshard[0]: info: what GPUs send goes through host memory: NCCL is not taken by "
      "itself yet, since it has not been run on GPUs; ZEROSHARD_NCCL=1 takes it");
}

TEST_F(ConnectDevices, AsTheVariableSays) {
  for (const bool may_choose : {false, true}) {
    setenv("ZEROSHARD_NCCL", "1", 1);
    EXPECT_TRUE(connect(2, may_choose).nccl);
    setenv("ZEROSHARD_NCCL", "0", 1);
    const Outcome refused = connect(2, may_choose);
    EXPECT_FALSE(refused.nccl);
    EXPECT_EQ(refused.said, "");
  }
}

TEST_F(ConnectDevices, AnotherWordIsRefused) {
  setenv("ZEROSHARD_NCCL", "yes", 1);
  EXPECT_THROW(connect(2, true), ConfigError);
}

TEST_F(ConnectDevices, RanksOnOneDeviceGoThroughTheHost) {
  FakeAccelerator::install().share_among_ranks(true);
  FakeNccl::be_of_version(23007);
  const Outcome outcome = connect(2, true);
  EXPECT_FALSE(outcome.nccl);
  EXPECT_EQ(
      outcome.said,
      "info zeroshard[0]: info: what GPUs send goes through host memory: 2 ranks share 1 GPU, "
      "which NCCL refuses unless NCCL_MULTI_RANK_GPU_ENABLE=1");
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  EXPECT_TRUE(connect(2, true).nccl);
}

TEST_F(ConnectDevices, WhoInsistsInVainIsTold) {
  setenv("ZEROSHARD_NCCL", "1", 1);
  FakeAccelerator::install().share_among_ranks(true);
  try {
    connect(2, true);
    FAIL() << "2 ranks share a GPU";
  } catch (const PeerError& error) {  // whichever rank is first
    EXPECT_NE(std::string(error.what()).find("insists on NCCL"), std::string::npos);
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "[config] ZEROSHARD_NCCL=1 insists on NCCL, which cannot be: 2 ranks share 1 GPU, "
                 "which NCCL can from 2.30 on, and here is 2.28.9; without that variable what GPUs "
                 "send goes through host memory");
  }
}

TEST_F(ConnectDevices, ATrialOfEverySize) {
  for (const int ranks : {2, 3, 4, 7}) {
    for (const bool deterministic : {false, true}) {
      EXPECT_TRUE(connect(ranks, true, fake_options({.deterministic = deterministic})).nccl);
    }
  }
}

TEST_F(ConnectDevices, WrongSumsAreFound) {
  FakeNccl::give_wrong_sums_to(1);
  expect_host_after("1 a sum of fp32 has other values than the hosts compute");
}

// The sums of a device whose additions are a little off, of all dtypes.
TEST_F(ConnectDevices, SumsInRankOrderAreComparedBitByBit) {
  NcclOptions options = fake_options({.deterministic = true});
  options.write = [](Device device, std::vector<ArrayWrite> all) {
    for (ArrayWrite& each : all) each.factor1 = std::nextafter(each.factor1, 2.0F);
    write_arrays_on_fake(device, all);
  };
  expect_host_after("0 a sum of fp32 has other values than the hosts compute", options);
}

TEST_F(ConnectDevices, WrongGathersAreFound) {
  FakeNccl::give_wrong_gathers_to(2);
  expect_host_after("2 a gather has other values than the hosts compute");
  expect_host_after("2 a gather has other values than the hosts compute",
                    fake_options({.deterministic = true}));
}

TEST_F(ConnectDevices, ARankThatFailsInMeetingIsFound) {
  FakeNccl::fail_meeting_of(1);
  expect_host_after(
      "1 NCCL failed in meeting (a fault that a test has made (result 2: no way to the other "
      "ranks))");
}

TEST_F(ConnectDevices, AMeetingThatNeverEndsIsFound) {
  FakeNccl::hang_meeting_of(2);
  NcclOptions options = fake_options();
  options.trial_time = std::chrono::milliseconds(300);
  expect_host_after("0 NCCL did not meet within 300 ms", options);
}

TEST_F(ConnectDevices, ARankThatFailsInALaunchIsFound) {
  FakeNccl::fail_launches_of(0);
  expect_host_after(
      "0 NCCL failed in a launch (a fault that a test has made (result 2: the network has gone "
      "away))");
}

TEST_F(ConnectDevices, AKernelThatHangsIsFound) {
  FakeNccl::hang_kernels_of(1);
  NcclOptions options = fake_options();
  options.trial_time = std::chrono::milliseconds(300);
  expect_host_after("0 what was launched has not ended within 300 ms", options);
}

// Not later than any other stuck rank.
TEST_F(ConnectDevices, ATrialIsOverWithinTheTimeout) {
  FakeNccl::hang_kernels_of(1);
  expect_host_after("0 what was launched has not ended within 250 ms",
                    fake_options({.timeout = std::chrono::milliseconds(250)}));
}

TEST_F(ConnectDevices, WhoInsistsHearsHowTheTrialFailed) {
  setenv("ZEROSHARD_NCCL", "1", 1);
  FakeNccl::give_wrong_sums_to(0);
  aborted_ = 2;
  try {
    connect(2, false);
    FAIL() << "sums are wrong";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("NCCL was tried, and on rank 0 a sum of fp32"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace zeroshard
