#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"
#include "zeroshard/base/cpu_limit.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

// A root folder with a /sys/fs/cgroup of our own.
class CpuLimit : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_ / "sys/fs/cgroup" / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  void write_v1(const std::string& folder, int quota, int period) {
    write(folder + "/cpu.cfs_quota_us", std::to_string(quota));
    write(folder + "/cpu.cfs_period_us", std::to_string(period));
  }

  const test::TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(CpuLimit, LastLevelCachesAreAddedUpOnceEach) {
  const auto say = [&](int cpu, int index, int level, const char* size, const char* sharers) {
    const std::string cache = fmt::format("cpus/cpu{}/cache/index{}", cpu, index);
    write(cache + "/level", std::to_string(level));
    write(cache + "/size", size);
    write(cache + "/shared_cpu_list", sharers);
  };
  for (int cpu = 0; cpu < 4; ++cpu) {
    say(cpu, 0, 1, "32K", std::to_string(cpu).c_str());
    say(cpu, 1, 3, "16384K", cpu < 2 ? "0-1" : "2-3");
    say(cpu, 2, 2, "1024K", std::to_string(cpu).c_str());
  }
  const fs::path cpus = root_ / "sys/fs/cgroup/cpus";
  EXPECT_EQ(last_level_cache_bytes(cpus), std::int64_t{2} * 16384 * 1024);
  EXPECT_GT(last_level_cache_bytes(root_ / "none"), 1 << 20);
  EXPECT_GT(last_level_cache_bytes(), 0);
}

TEST_F(CpuLimit, NoFilesNoLimit) {
  EXPECT_EQ(cgroup_cpus(root_, "0::/\n"), std::nullopt);
  EXPECT_EQ(cgroup_cpus(root_, ""), std::nullopt);
  EXPECT_EQ(cgroup_cpus(root_, "garbage\n:\n\n"), std::nullopt);
}

TEST_F(CpuLimit, V2QuotaOfTheOwnGroup) {
  write("job/cpu.max", "400000 100000");
  EXPECT_EQ(cgroup_cpus(root_, "0::/job\n"), 4);
  EXPECT_EQ(cgroup_cpus(root_, "0::/other\n"), std::nullopt);
}

TEST_F(CpuLimit, V2MaxIsNoLimit) {
  write("job/cpu.max", "max 100000");
  EXPECT_EQ(cgroup_cpus(root_, "0::/job\n"), std::nullopt);
}

TEST_F(CpuLimit, FractionsRoundUp) {
  write("job/cpu.max", "150000 100000");
  EXPECT_EQ(cgroup_cpus(root_, "0::/job\n"), 2);
  write("job/cpu.max", "1000 100000");
  EXPECT_EQ(cgroup_cpus(root_, "0::/job\n"), 1);
}

TEST_F(CpuLimit, TheTightestAncestorCounts) {
  write("cpu.max", "max 100000");
  write("slice/cpu.max", "200000 100000");
  write("slice/pod/cpu.max", "max 100000");
  write("slice/pod/box/cpu.max", "800000 100000");
  EXPECT_EQ(cgroup_cpus(root_, "0::/slice/pod/box\n"), 2);
}

// What a container sees that has the host's path but its own mount.
TEST_F(CpuLimit, MountPointCountsWhereThePathIsMissing) {
  write("cpu.max", "300000 100000");
  EXPECT_EQ(cgroup_cpus(root_, "0::/docker/abc\n"), 3);
  EXPECT_EQ(cgroup_cpus(root_, "0::/\n"), 3);
}

TEST_F(CpuLimit, NeverLeavesTheMount) {
  write("cpu.max", "300000 100000");
  write("../cpu.max", "100000 100000");
  EXPECT_EQ(cgroup_cpus(root_, "0::/../x\n"), 3);
}

TEST_F(CpuLimit, V1Quota) {
  write_v1("cpu,cpuacct/docker/abc", 250000, 100000);
  EXPECT_EQ(cgroup_cpus(root_, "11:memory:/m\n4:cpu,cpuacct:/docker/abc\n"), 3);
}

TEST_F(CpuLimit, V1MountedUnderCpuAlone) {
  write_v1("cpu", 100000, 50000);
  EXPECT_EQ(cgroup_cpus(root_, "4:cpu,cpuacct:/\n"), 2);
  EXPECT_EQ(cgroup_cpus(root_, "4:cpuset:/\n"), std::nullopt);
}

TEST_F(CpuLimit, V1MinusOneIsNoLimit) {
  write_v1("cpu", -1, 100000);
  EXPECT_EQ(cgroup_cpus(root_, "4:cpu:/\n"), std::nullopt);
}

TEST_F(CpuLimit, TheTighterVersionCounts) {
  write("cpu.max", "600000 100000");
  write_v1("cpu/job", 500000, 100000);
  EXPECT_EQ(cgroup_cpus(root_, "4:cpu:/job\n0::/\n"), 5);
}

TEST_F(CpuLimit, BrokenFilesSetNoLimit) {
  for (const auto* text : {"", "abc", "100000", "0 100000", "100000 0", "-5 100000"}) {
    write("cpu.max", text);
    EXPECT_EQ(cgroup_cpus(root_, "0::/\n"), std::nullopt) << text;
  }
}

TEST(UsableCpus, FollowsTheAffinityMask) {
  // In a thread of its own, whose mask ends with it.
  std::thread([] {
    const int before = affinity_cpus();
    EXPECT_GE(before, 1);
    EXPECT_GE(usable_cpus(), 1);
    EXPECT_LE(usable_cpus(), before);
    cpu_set_t mask, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    CPU_ZERO(&one);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(affinity_cpus(), 1);
    EXPECT_EQ(usable_cpus(), 1);
  }).join();
}

}  // namespace
}  // namespace zeroshard
