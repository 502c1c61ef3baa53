// What a process may still take, from the files of a machine of our own making.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "zeroshard/base/memory_room.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

class Room : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  void write_cgroup(const std::string& path, const std::string& text) {
    write("sys/fs/cgroup/" + path, text);
  }
  std::int64_t bytes() const { return memory_room(root_).value().bytes; }
  std::string set_by() const {
    return fs::path(memory_room(root_).value().set_by).lexically_relative(root_).string();
  }

  const test::TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(Room, WithoutFilesNobodyKnows) { EXPECT_EQ(memory_room(root_), std::nullopt); }

TEST_F(Room, WhatTheKernelCallsAvailable) {
  write("proc/meminfo", "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable:   300 kB");
  EXPECT_EQ(bytes(), 300 * 1024);
  EXPECT_EQ(set_by(), "proc/meminfo");
}

TEST_F(Room, V2LimitLessWhatIsUsed) {
  write("proc/meminfo", "MemAvailable: 1000 kB");
  write("proc/self/cgroup", "0::/job");
  write_cgroup("job/memory.max", "5000");
  EXPECT_EQ(bytes(), 5000) << "whoever does not say what is used has used nothing";
  write_cgroup("job/memory.current", "4200");
  EXPECT_EQ(bytes(), 800);
  EXPECT_EQ(set_by(), "sys/fs/cgroup/job/memory.max");
}

TEST_F(Room, CachedFilesAreNotInTheWay) {
  write("proc/self/cgroup", "0::/job");
  write_cgroup("job/memory.max", "5000");
  write_cgroup("job/memory.current", "4200");
  write_cgroup("job/memory.stat", "anon 3000\ninactive_file 700\nactive_file 300\nfile 1000");
  EXPECT_EQ(bytes(), 1800);
}

TEST_F(Room, V2MaxIsNoLimit) {
  write("proc/meminfo", "MemAvailable: 7 kB");
  write("proc/self/cgroup", "0::/job");
  write_cgroup("job/memory.max", "max");
  EXPECT_EQ(bytes(), 7 * 1024);
}

TEST_F(Room, V1LimitLessWhatIsUsed) {
  write("proc/self/cgroup", "4:memory:/box\n1:cpu:/other");
  write_cgroup("memory/box/memory.limit_in_bytes", "9000");
  write_cgroup("memory/box/memory.usage_in_bytes", "8000");
  write_cgroup("memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 2000");
  EXPECT_EQ(bytes(), 3000);
}

TEST_F(Room, V1WritesAHugeNumberForNoLimit) {
  write("proc/meminfo", "MemAvailable: 7 kB");
  write("proc/self/cgroup", "4:memory:/");
  write_cgroup("memory/memory.limit_in_bytes", "9223372036854771712");
  write_cgroup("memory/memory.usage_in_bytes", "8000");
  EXPECT_EQ(bytes(), 7 * 1024);
}

TEST_F(Room, TheTightestAncestorCounts) {
  write("proc/self/cgroup", "0::/slice/pod");
  write_cgroup("slice/memory.max", "600");
  write_cgroup("slice/memory.current", "500");
  write_cgroup("slice/pod/memory.max", "400");
  EXPECT_EQ(bytes(), 100);
}

TEST_F(Room, MoreUsedThanAllowedLeavesNothing) {
  write("proc/self/cgroup", "0::/job");
  write_cgroup("job/memory.max", "5000");
  write_cgroup("job/memory.current", "6000");
  EXPECT_EQ(bytes(), 0);
}

TEST(MemoryRoomHere, ThisMachineSaysSomething) {
  const auto room = memory_room();
  ASSERT_TRUE(room.has_value());
  EXPECT_GT(room->bytes, 0);
  EXPECT_FALSE(room->set_by.empty());
}

}  // namespace
}  // namespace zeroshard
