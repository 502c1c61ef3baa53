// Where the threads of a rank stay, on a machine whose files name the CPUs that are really here.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/base/env_scope.h"
#include "tests/setup/made_up_machine.h"
#include "tests/support/fake_accelerator.h"
#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/cpu_set.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/setup/choose_device.h"

namespace zeroshard {
namespace {

using test::EnvScope;
using test::gpu_bus;
using test::MadeUpMachine;

constexpr Device kGpu = FakeAccelerator::device();

class ChooseThreads : public testing::Test {
 protected:
  void SetUp() override {
    if (cpus_.size() < 2) GTEST_SKIP() << "one CPU has no far side";
    FakeAccelerator::install().put_on_bus("00000000:" + gpu_bus(10).substr(5));
  }
  void TearDown() override { at::set_num_threads(threads_); }

  // Our GPU is at the second of two nodes, which has all CPUs but the first; another one has that.
  void add_two_nodes() const {
    machine_.add_node(0, std::to_string(cpus_.front()), "10 20");
    machine_.add_node(1, list_of_cpus(far()), "20 10");
    machine_.add_gpu(gpu_bus(1), 0);
    machine_.add_gpu(gpu_bus(10), 1);
  }
  CpuSet far() const { return {cpus_.begin() + 1, cpus_.end()}; }

  const CpuSet cpus_ = affinity();
  const int usable_ = usable_cpus();
  const int threads_ = at::get_num_threads();
  const MadeUpMachine machine_;
  const EnvScope no_threads_{EnvVar::kOmpThreads, ""};
};

TEST_F(ChooseThreads, AThreadStaysNearTheGpu) {
  add_two_nodes();
  run_ranks(1, {}, [&](Communicator&) {
    EXPECT_TRUE(stay_near(kGpu, machine_.root()));
    EXPECT_EQ(affinity(), far());
    std::thread([&] { EXPECT_EQ(affinity(), far()); }).join();
  });
}

TEST_F(ChooseThreads, NothingIsBoundWithoutReason) {
  run_ranks(1, {}, [&](Communicator&) {
    EXPECT_FALSE(stay_near(kGpu, machine_.root())) << "the machine says nothing";
    add_two_nodes();
    EXPECT_FALSE(stay_near(kCpu, machine_.root()));
    const EnvScope off(EnvVar::kBind, "0");
    EXPECT_FALSE(stay_near(kGpu, machine_.root()));
    EXPECT_EQ(affinity(), cpus_);
  });
}

TEST_F(ChooseThreads, AMaskFromOutsideIsNotWidened) {
  add_two_nodes();
  run_ranks(1, {}, [&](Communicator&) {
    ASSERT_TRUE(set_affinity({cpus_.front()}));
    EXPECT_TRUE(stay_near(kGpu, machine_.root()));
    EXPECT_EQ(affinity(), (CpuSet{cpus_.front()})) << "none of it is near";
  });
}

TEST_F(ChooseThreads, RanksOnOneNodeTakeAHalfEach) {
  machine_.add_node(0, list_of_cpus(cpus_));
  machine_.add_gpu(gpu_bus(10), 0);
  std::vector<CpuSet> taken(2);
  run_ranks(2, {}, [&](Communicator& comm) {
    const bool near = stay_near(kGpu, machine_.root());
    EXPECT_TRUE(near);
    EXPECT_EQ(affinity(), cpus_);
    const ThreadsOfRanks threads = choose_threads(comm, near);
    EXPECT_EQ(threads.least, std::max(1, usable_ / 2));
    EXPECT_EQ(threads.most, threads.least);
    taken[static_cast<std::size_t>(comm.rank())] = affinity();
  });
  EXPECT_EQ(taken[0].size(), cpus_.size() / 2);
  EXPECT_EQ(taken[1].size(), cpus_.size() / 2);
  EXPECT_TRUE(common_cpus(taken[0], taken[1]).empty());
}

TEST_F(ChooseThreads, WithoutAGpuTheyAreCountedAndNotBound) {
  run_ranks(2, {}, [&](Communicator& comm) {
    const ThreadsOfRanks threads = choose_threads(comm);
    EXPECT_EQ(affinity(), cpus_);
    EXPECT_EQ(threads.least, std::max(1, usable_cpus() / 2));
    EXPECT_FALSE(threads.leave_idle_cores);
  });
}

// As SLURM or mpirun bind tasks: what each has is its own, and not divided once more.
TEST_F(ChooseThreads, RanksThatWereBoundApartKeepWhatTheyHave) {
  if (usable_cpus() < 2) GTEST_SKIP() << "a quota leaves one CPU";
  run_ranks(2, {}, [&](Communicator& comm) {
    ASSERT_TRUE(set_affinity(comm.rank() == 1 ? far() : CpuSet{cpus_.front()}));
    const ThreadsOfRanks threads = choose_threads(comm);
    EXPECT_EQ(threads.least, 1);
    EXPECT_EQ(threads.most, std::max<int>(1, std::min(static_cast<int>(far().size()),
                                                      cpu_quota().value_or(1 << 20) / 2)));
  });
}

TEST_F(ChooseThreads, OneRankWithoutAnIdleCoreIsEnough) {
  if (usable_cpus() < 2) GTEST_SKIP() << "a quota leaves one CPU";
  const EnvScope one(EnvVar::kOmpThreads, "1");
  run_ranks(1, {}, [&](Communicator& comm) { EXPECT_TRUE(choose_threads(comm).leave_idle_cores); });
  run_ranks(2, {}, [&](Communicator& comm) {
    ASSERT_TRUE(set_affinity(comm.rank() == 1 ? CpuSet{cpus_.front()} : cpus_));
    EXPECT_FALSE(choose_threads(comm).leave_idle_cores) << "all ranks are told the same";
  });
}

}  // namespace
}  // namespace zeroshard
