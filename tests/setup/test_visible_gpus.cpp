// Which GPUs CUDA_VISIBLE_DEVICES leaves, and how many ranks follow.
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/setup/made_up_machine.h"
#include "zeroshard/setup/visible_gpus.h"

namespace zeroshard::test {
namespace {

const std::string kUuids[] = {
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8932f9aa-1111-2222-3333-444455556666",
    "GPU-01234567-89ab-cdef-0123-456789abcdef", "GPU-fedcba98-7654-3210-fedc-ba9876543210"};

std::vector<LocalGpu> four_gpus() {
  std::vector<LocalGpu> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back({.name = std::string(1, static_cast<char>('a' + i)), .uuid = kUuids[i]});
  }
  return all;
}

// The letters of those that are left.
std::string left(const std::optional<std::string>& variable,
                 const std::vector<LocalGpu>& all = four_gpus()) {
  std::string names;
  for (const LocalGpu& gpu : visible_gpus(all, variable)) names += gpu.name;
  return names;
}

TEST(VisibleGpus, AllWhereNobodyChooses) {
  EXPECT_EQ(left(std::nullopt), "abcd");
  EXPECT_EQ(left(std::nullopt, {}), "");
  EXPECT_EQ(left("0", {}), "");
}

TEST(VisibleGpus, ByIndexInTheOrderGiven) {
  EXPECT_EQ(left("0"), "a");
  EXPECT_EQ(left("2,0"), "ca");
  EXPECT_EQ(left("0,1,2,3"), "abcd");
  EXPECT_EQ(left(" 1 , 3 "), "bd");
  EXPECT_EQ(left("+1,2nd"), "bc") << "numbers are read as strtoul does";
}

TEST(VisibleGpus, WhatIsNotThereEndsTheList) {
  EXPECT_EQ(left("1,4,2"), "b");
  EXPECT_EQ(left("1,-1,2"), "b");
  EXPECT_EQ(left("1,,2"), "b");
  EXPECT_EQ(left("1,x,2"), "b");
  EXPECT_EQ(left("1,GPU-01234567"), "b") << "names of another kind";
  EXPECT_EQ(left("1,99999999999999999999"), "b");
}

TEST(VisibleGpus, NoneAtAll) {
  for (const char* text :
       {"", "-1", "4", "none", "NoDevFiles", ",0", "GPU-", "GPU-9", "gpu-0123"}) {
    EXPECT_EQ(left(text), "") << text;
  }
}

TEST(VisibleGpus, OneThatComesTwiceLeavesNone) {
  EXPECT_EQ(left("0,0"), "");
  EXPECT_EQ(left("0,1,+0"), "");
  EXPECT_EQ(left("GPU-0123,GPU-01234567"), "");
  EXPECT_EQ(left("0,9,0"), "a") << "behind the end of the list nobody looks";
}

TEST(VisibleGpus, ByTheBeginningOfAUuid) {
  EXPECT_EQ(left(kUuids[1]), "b");
  EXPECT_EQ(left("GPU-fed,GPU-0"), "dc");
  EXPECT_EQ(left("GPU-8932f93"), "a");
  EXPECT_EQ(left("GPU-fed,GPU-8932f9,GPU-0"), "d") << "two begin so";
  EXPECT_EQ(left("GPU-fed,0"), "d");
  EXPECT_EQ(left("GPU-0", {{.name = "x", .uuid = ""}}), "") << "nobody knows its UUID";
}

TEST(VisibleGpus, APartOfAGpuIsOneDevice) {
  std::vector<LocalGpu> all = four_gpus();
  all[2].is_split = true;
  all[2].memory_bytes = 1000;
  EXPECT_EQ(left("MIG-" + kUuids[1] + "/1/0", all), "b");
  EXPECT_EQ(left("MIG-" + kUuids[1] + "/1/0,MIG-" + kUuids[1] + "/2/0", all), "b");
  EXPECT_EQ(left("MIG-5c0a1111-2222-3333-4444-555566667777", all), "c");
  EXPECT_EQ(left("MIG-5c0a1111-2222-3333-4444-555566667777"), "a") << "nobody knows of parts";
  EXPECT_EQ(left("MIG-", {}), "");
  // Where one is split, CUDA shows a part of it and nothing else.
  EXPECT_EQ(left(std::nullopt, all), "c");
  EXPECT_EQ(left("0,2", all), "c");
  EXPECT_EQ(left("0,1", all), "ab");
  EXPECT_EQ(visible_gpus(all, "2").front().memory_bytes, std::nullopt) << "that is the whole's";
}

TEST(VisibleGpus, OfTheKernelsDriver) {
  const MadeUpMachine machine;
  EXPECT_TRUE(gpus_of_driver(machine.root()).empty());
  const std::string gpus = "proc/driver/nvidia/gpus/";
  machine.write(gpus + "0000:af:00.0/information",
                "Model: \t\t NVIDIA H200\nIRQ:   \t\t 180\nGPU UUID: \t " + kUuids[1]);
  machine.write(gpus + "0000:3b:00.0/information", "Model:\nGPU UUID:");
  machine.write(gpus + "0000:5e:00.0/other", "");
  const std::vector<LocalGpu> expected{{.name = "GPU", .uuid = ""},
                                       {.name = "GPU", .uuid = ""},
                                       {.name = "NVIDIA H200", .uuid = kUuids[1]}};
  EXPECT_EQ(gpus_of_driver(machine.root()), expected);
  EXPECT_EQ(visible_gpus(expected, "GPU-8932").front().name, "NVIDIA H200");
}

TEST(RanksForGpus, OneForEachOfOneToEight) {
  for (int gpus = 1; gpus <= 8; ++gpus) {
    EXPECT_EQ(ranks_for_gpus("cuda", gpus), gpus);
    EXPECT_EQ(ranks_for_gpus("", gpus), gpus);
    EXPECT_EQ(ranks_for_gpus("cpu", gpus), 1);
    EXPECT_EQ(ranks_for_gpus("cuda:0", gpus), 1);
    EXPECT_EQ(ranks_for_gpus("cuda:7", gpus), 1);
  }
  EXPECT_EQ(ranks_for_gpus("", 0), 1);
  EXPECT_EQ(ranks_for_gpus("cuda", 0), 1) << "it says that there is none";
}

TEST(GpuOfRank, EachItsOwnAndSharedWhereRanksAreMore) {
  for (int gpus = 1; gpus <= 8; ++gpus) {
    for (int rank = 0; rank < gpus; ++rank) EXPECT_EQ(gpu_of_rank(rank, gpus), rank);
    EXPECT_EQ(gpu_of_rank(gpus, gpus), 0);
  }
  EXPECT_EQ(gpu_of_rank(5, 4), 1);
  EXPECT_EQ(gpu_of_rank(3, 0), 0);
}

// As srun --gpus-per-task=1 has it: the first GPU of each rank is another one.
TEST(GpuOfRank, ItsOwnWhereEachRankSeesOne) {
  for (int rank = 0; rank < 4; ++rank) {
    const auto visible = visible_gpus(four_gpus(), std::to_string(rank));
    ASSERT_EQ(visible.size(), 1U);
    EXPECT_EQ(gpu_of_rank(rank, static_cast<int>(visible.size())), 0);
    EXPECT_EQ(visible.front().uuid, kUuids[rank]);
  }
}

}  // namespace
}  // namespace zeroshard::test
