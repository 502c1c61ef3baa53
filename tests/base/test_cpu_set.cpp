#include <thread>

#include <gtest/gtest.h>

#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/cpu_set.h"

namespace zeroshard {
namespace {

TEST(CpuSet, ReadsListsAsTheKernelWritesThem) {
  EXPECT_EQ(cpus_in_list("0-3,8\n"), (CpuSet{0, 1, 2, 3, 8}));
  EXPECT_EQ(cpus_in_list("5"), (CpuSet{5}));
  EXPECT_EQ(cpus_in_list("0,64"), (CpuSet{0, 64}));
  EXPECT_EQ(cpus_in_list("8-9,0-1,8"), (CpuSet{0, 1, 8, 9}));
  EXPECT_EQ(cpus_in_list("1023-1025"), (CpuSet{1023, 1024, 1025}));
}

TEST(CpuSet, WhatIsNoListIsEmpty) {
  for (const char* text : {"", "\n", "a", "0-", "3-1", "-1", "0-3;8", "0 1", "0,,1", "0,x",
                           "0-99999999999", "2000000"}) {
    EXPECT_EQ(cpus_in_list(text), CpuSet{}) << text;
  }
}

TEST(CpuSet, WritesWhatItReads) {
  for (const char* text : {"", "0", "0-3,8", "1,3,5", "0-1,1024-1026"}) {
    EXPECT_EQ(list_of_cpus(cpus_in_list(text)), text);
  }
}

TEST(CpuSet, CommonCpus) {
  EXPECT_EQ(common_cpus({0, 1, 2, 8}, {1, 8, 9}), (CpuSet{1, 8}));
  EXPECT_EQ(common_cpus({0}, {1}), CpuSet{});
}

TEST(CpuSet, AThreadStaysWhereItIsTold) {
  const CpuSet before = affinity();
  ASSERT_FALSE(before.empty());
  // In a thread of its own, whose mask ends with it; those that it starts are told the same.
  std::thread([&] {
    ASSERT_TRUE(set_affinity({before.back()}));
    EXPECT_EQ(affinity(), (CpuSet{before.back()}));
    EXPECT_EQ(usable_cpus(), 1);
    std::thread([&] { EXPECT_EQ(affinity(), (CpuSet{before.back()})); }).join();
  }).join();
  EXPECT_EQ(affinity(), before);
}

TEST(CpuSet, CpusThatAreNotThereAreRefused) {
  const CpuSet before = affinity();
  EXPECT_FALSE(set_affinity({}));
  EXPECT_FALSE(set_affinity({100'000}));
  EXPECT_EQ(affinity(), before);
}

}  // namespace
}  // namespace zeroshard
