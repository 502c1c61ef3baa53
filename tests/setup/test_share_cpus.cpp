// How ranks share the CPUs of their machine: examples, and what holds for any.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/setup/made_up_machine.h"
#include "zeroshard/setup/near_gpu.h"
#include "zeroshard/setup/share_cpus.h"
#include "zeroshard/setup/visible_gpus.h"

namespace zeroshard::test {
namespace {

using Lists = std::vector<std::string>;

std::vector<RankCpus> ranks_with(const Lists& masks) {
  std::vector<RankCpus> ranks;
  for (const std::string& mask : masks) ranks.push_back({.may_use = cpus_in_list(mask)});
  return ranks;
}

Lists shared(const std::vector<RankCpus>& ranks, const std::vector<CpuSet>& cores = {}) {
  Lists lists;
  for (const CpuShare& share : share_cpus(ranks, cores)) lists.push_back(list_of_cpus(share.cpus));
  return lists;
}

Lists shared(const Lists& masks, const std::vector<CpuSet>& cores = {}) {
  return shared(ranks_with(masks), cores);
}

// Cores of two threads, CPU c and c + count.
std::vector<CpuSet> cores_of_two(int count) {
  std::vector<CpuSet> cores;
  for (int core = 0; core < count; ++core) cores.push_back({core, core + count});
  return cores;
}

// From a machine of 16 cores in two nodes, and what local ranks see of its GPUs, to their CPUs.
Lists on_two_nodes(int gpus, int ranks) {
  const MadeUpMachine machine;
  machine.add_node(0, "0-7,16-23", "10 21");
  machine.add_node(1, "8-15,24-31", "21 10");
  for (int gpu = 0; gpu < gpus; ++gpu) machine.add_gpu(gpu_bus(gpu), gpu < (gpus + 1) / 2 ? 0 : 1);
  const MachinePlaces places = read_places(machine.root());
  std::vector<RankCpus> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string bus = gpu_bus(gpu_of_rank(rank, gpus));
    all.push_back({.may_use = near_cpus(places, bus, cpus_in_list("0-31"))});
  }
  return shared(all, cores_of_two(16));
}

TEST(ShareCpus, ARankForEachGpuOfTwoNodes) {
  EXPECT_EQ(on_two_nodes(1, 1), (Lists{"0-31"}));
  EXPECT_EQ(on_two_nodes(2, 2), (Lists{"0-7,16-23", "8-15,24-31"}));
  EXPECT_EQ(on_two_nodes(4, 4), (Lists{"0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"}));
  EXPECT_EQ(on_two_nodes(8, 8), (Lists{"0-1,16-17", "2-3,18-19", "4-5,20-21", "6-7,22-23",
                                       "8-9,24-25", "10-11,26-27", "12-13,28-29", "14-15,30-31"}));
}

TEST(ShareCpus, RanksOnOneGpuShareItsNode) {
  EXPECT_EQ(on_two_nodes(2, 4), (Lists{"0-3,16-19", "8-11,24-27", "4-7,20-23", "12-15,28-31"}));
  EXPECT_EQ(on_two_nodes(1, 2), (Lists{"0-7,16-23", "8-15,24-31"}));
}

// A node with more GPUs than the other has less for each of them.
TEST(ShareCpus, ThreeGpusOnTwoNodes) {
  EXPECT_EQ(on_two_nodes(3, 3), (Lists{"0-3,16-19", "4-7,20-23", "8-15,24-31"}));
}

TEST(ShareCpus, OneNodeForOneToEightRanks) {
  for (const int ranks : {1, 2, 4, 8}) {
    const auto shares =
        share_cpus(ranks_with(Lists(static_cast<std::size_t>(ranks), "0-31")), cores_of_two(16));
    for (const CpuShare& share : shares) EXPECT_EQ(share.threads, 32 / ranks);
    EXPECT_EQ(shares.back().cpus.back(), 31);
  }
}

TEST(ShareCpus, PartsAreEqualAndAlongCoresWhereThatComesOutEven) {
  EXPECT_EQ(shared(Lists(3, "0-6")), (Lists{"0-1", "2-3", "4-5"}));
  EXPECT_EQ(shared(Lists(2, "0-9"), cores_of_two(5)), (Lists{"0-2,5-6", "3-4,7-9"}))
      << "five cores: one is cut";
  EXPECT_EQ(shared(Lists(2, "0-7"), cores_of_two(4)), (Lists{"0-1,4-5", "2-3,6-7"}));
  EXPECT_EQ(shared(Lists(2, "0-7")), (Lists{"0-3", "4-7"})) << "nobody knows the cores";
}

TEST(ShareCpus, RanksThatWereBoundApartKeepTheirOwn) {
  const auto ranks = ranks_with({"0-3", "4-7", "8-11", "12-15"});
  EXPECT_EQ(shared(ranks), (Lists{"0-3", "4-7", "8-11", "12-15"}));
  for (const CpuShare& share : share_cpus(ranks, {})) EXPECT_EQ(share.threads, 4);
}

TEST(ShareCpus, MasksThatOverlapShareTheOverlap) {
  EXPECT_EQ(shared(Lists{"0-5", "4-9"}), (Lists{"0-4", "5-9"}));
}

TEST(ShareCpus, FewerCpusThanRanks) {
  EXPECT_EQ(shared(Lists(4, "0-1")), Lists(4, "0-1"));
  for (const CpuShare& share : share_cpus(ranks_with(Lists(4, "0-1")), {})) {
    EXPECT_EQ(share.threads, 1);
  }
  // One that has others leaves alone what is too little for all.
  EXPECT_EQ(shared(Lists{"0-2", "2-3"}), (Lists{"0-1", "3"}));
}

TEST(ShareCpus, HostsHaveCpusOfTheirOwn) {
  auto ranks = ranks_with({"0-7", "0-7", "0-3"});
  ranks[2].host = 1;
  EXPECT_EQ(shared(ranks), (Lists{"0-3", "4-7", "0-3"}));
}

TEST(ShareCpus, ThreadsAreWhatSomebodySaysOrTheShare) {
  auto ranks = ranks_with({"0-7", "0-7"});
  EXPECT_EQ(share_cpus(ranks, {})[0].threads, 4);
  EXPECT_FALSE(share_cpus(ranks, {})[0].leaves_idle_core);
  ranks[0].given_threads = 3;
  EXPECT_EQ(share_cpus(ranks, {})[0].threads, 3);
  EXPECT_TRUE(share_cpus(ranks, {})[0].leaves_idle_core);
  EXPECT_EQ(share_cpus(ranks, {})[1].threads, 4);
  ranks[0].given_threads = 64;
  EXPECT_EQ(share_cpus(ranks, {})[0].threads, 64);
}

TEST(ShareCpus, AQuotaIsTheMachines) {
  auto ranks = ranks_with({"0-63", "0-63"});
  for (RankCpus& rank : ranks) rank.quota = 6;
  EXPECT_EQ(share_cpus(ranks, {})[1].threads, 3);
  for (RankCpus& rank : ranks) rank.quota = 1;
  EXPECT_EQ(share_cpus(ranks, {})[1].threads, 1);
  for (RankCpus& rank : ranks) rank.quota = 1000;
  EXPECT_EQ(share_cpus(ranks, {})[1].threads, 32);
}

struct Any {
  std::mt19937 random{7};
  int number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  }

  std::vector<RankCpus> ranks(int cpus) {
    std::vector<RankCpus> all(static_cast<std::size_t>(number(1, 9)));
    const int kinds = number(1, 3);
    std::vector<CpuSet> masks(static_cast<std::size_t>(kinds));
    for (CpuSet& mask : masks) {
      for (int cpu = 0; cpu < cpus; ++cpu) {
        if (number(0, 3) != 0) mask.push_back(cpu);
      }
      if (mask.empty()) mask.push_back(0);
    }
    for (RankCpus& rank : all) rank.may_use = masks[static_cast<std::size_t>(number(0, kinds - 1))];
    return all;
  }
};

// A rank of a machine with too few CPUs keeps all that it may use, for one thread.
bool has_no_part(const RankCpus& rank, const CpuShare& share) {
  return share.cpus == rank.may_use && share.threads == 1;
}

TEST(ShareCpus, AnyRanksGetSomethingOfTheirOwnWithinTheirMasks) {
  Any any;
  int overlaps = 0;
  for (int round = 0; round < 2000; ++round) {
    const int cpus = any.number(1, 40);
    const auto ranks = any.ranks(cpus);
    const auto shares = share_cpus(ranks, cores_of_two((cpus + 1) / 2));
    ASSERT_EQ(shares.size(), ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const CpuShare& share = shares[i];
      ASSERT_FALSE(share.cpus.empty());
      ASSERT_EQ(common_cpus(share.cpus, ranks[i].may_use), share.cpus);
      ASSERT_GE(share.threads, 1);
      ASSERT_TRUE(share.threads == static_cast<int>(share.cpus.size()) ||
                  has_no_part(ranks[i], share));
      for (std::size_t j = 0; j < i; ++j) {
        if (ranks[j].may_use == ranks[i].may_use) {
          ASSERT_EQ(share.threads, shares[j].threads);
        }
        if (common_cpus(share.cpus, shares[j].cpus).empty()) continue;
        ++overlaps;
        ASSERT_TRUE(has_no_part(ranks[i], share) || has_no_part(ranks[j], shares[j]));
      }
    }
  }
  EXPECT_GT(overlaps, 0) << "too few CPUs are among what was tried";
}

TEST(ShareCpus, WithACpuForEachRankNoneIsSharedAndFewAreLeft) {
  for (int cpus = 1; cpus <= 40; ++cpus) {
    for (int count = 1; count <= std::min(cpus, 9); ++count) {
      const std::string mask = "0-" + std::to_string(cpus - 1);
      const Lists masks(static_cast<std::size_t>(count), mask);
      std::multiset<int> taken;
      for (const CpuShare& share : share_cpus(ranks_with(masks), cores_of_two((cpus + 1) / 2))) {
        taken.insert(share.cpus.begin(), share.cpus.end());
        ASSERT_EQ(share.threads, cpus / count);
      }
      ASSERT_EQ(std::set<int>(taken.begin(), taken.end()).size(), taken.size());
      ASSERT_GT(taken.size() + static_cast<std::size_t>(count), static_cast<std::size_t>(cpus));
    }
  }
}

}  // namespace
}  // namespace zeroshard::test
