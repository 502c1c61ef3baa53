#include <gtest/gtest.h>

#include "zeroshard/trainer/choose_communication.h"

namespace zeroshard {
namespace {

constexpr CommunicationFacts kAside = {.parameters = 40'000'000, .runs_aside = true};
constexpr CommunicationFacts kNotAside = {.parameters = 40'000'000, .runs_aside = false};

TEST(ChooseCommunication, OverlapsWhereItCostsNobodyACore) {
  ZeroOptions zero{.stage = 3};
  const auto said = choose_communication(zero, {}, kAside);
  EXPECT_EQ(zero.overlap_comm, true);
  EXPECT_EQ(zero.reduce_bucket_numel, 5'000'000);
  EXPECT_EQ(zero.prefetch_numel, 5'000'000);
  EXPECT_EQ(said, (std::vector<std::string>{"no overlap_comm: on", "no reduce_bucket_size: 5000000",
                                            "no stage3_prefetch_bucket_size: 5000000"}));
}

TEST(ChooseCommunication, GathersNothingAheadWithoutOverlap) {
  ZeroOptions zero{.stage = 3};
  choose_communication(zero, {}, kNotAside);
  EXPECT_EQ(zero.overlap_comm, false);
  EXPECT_EQ(zero.prefetch_numel, 0);
}

TEST(ChooseCommunication, LeavesAloneWhatTheConfigurationSays) {
  ZeroOptions zero{
      .stage = 3, .reduce_bucket_numel = 77, .overlap_comm = false, .prefetch_numel = 88};
  const ZeroOptions before = zero;
  EXPECT_TRUE(
      choose_communication(zero, {.overlap = false, .bucket = false, .prefetch = false}, kAside)
          .empty());
  EXPECT_EQ(zero.overlap_comm, before.overlap_comm);
  EXPECT_EQ(zero.reduce_bucket_numel, before.reduce_bucket_numel);
  EXPECT_EQ(zero.prefetch_numel, before.prefetch_numel);
}

TEST(ChooseCommunication, SaysNothingOfPrefetchWhereNothingIsGathered) {
  ZeroOptions zero{.stage = 2};
  EXPECT_EQ(choose_communication(zero, {}, kAside).size(), 2U);
  EXPECT_EQ(zero.prefetch_numel, ZeroOptions{}.prefetch_numel);
}

TEST(ChooseCommunication, BucketsAreNeitherTinyNorHuge) {
  ZeroOptions small, large;
  choose_communication(small, {}, {.parameters = 1000});
  choose_communication(large, {}, {.parameters = 70'000'000'000});
  EXPECT_EQ(small.reduce_bucket_numel, 1'000'000);
  EXPECT_EQ(large.reduce_bucket_numel, 50'000'000);
}

}  // namespace
}  // namespace zeroshard
