#include <gtest/gtest.h>

#include "zeroshard/config/read.h"
#include "zeroshard/setup/choices.h"

namespace zeroshard {
namespace {

constexpr CommunicationFacts kBeside = {.parameters = 40'000'000,
                                        .communicates_beside_compute = true};
constexpr CommunicationFacts kNotBeside = {.parameters = 40'000'000,
                                           .communicates_beside_compute = false};

TEST(ChooseCommunication, OverlapsWhereItCostsNobodyACore) {
  ZeroOptions zero{.stage = 3};
  const auto said = choose_communication(zero, {}, kBeside);
  EXPECT_EQ(zero.overlap_comm, true);
  EXPECT_EQ(zero.reduce_bucket_numel, 5'000'000);
  EXPECT_EQ(zero.prefetch_numel, 5'000'000);
  EXPECT_EQ(said, (std::vector<std::string>{"no overlap_comm: on", "no reduce_bucket_size: 5000000",
                                            "no stage3_prefetch_bucket_size: 5000000"}));
}

TEST(ChooseCommunication, GathersNothingAheadWithoutOverlap) {
  ZeroOptions zero{.stage = 3};
  choose_communication(zero, {}, kNotBeside);
  EXPECT_EQ(zero.overlap_comm, false);
  EXPECT_EQ(zero.prefetch_numel, 0);
}

TEST(ChooseCommunication, LeavesAloneWhatTheConfigurationSays) {
  ZeroOptions zero{
      .stage = 3, .reduce_bucket_numel = 77, .overlap_comm = false, .prefetch_numel = 88};
  const ZeroOptions before = zero;
  EXPECT_TRUE(
      choose_communication(zero, {.overlap = false, .bucket = false, .prefetch = false}, kBeside)
          .empty());
  EXPECT_EQ(zero.overlap_comm, before.overlap_comm);
  EXPECT_EQ(zero.reduce_bucket_numel, before.reduce_bucket_numel);
  EXPECT_EQ(zero.prefetch_numel, before.prefetch_numel);
}

TEST(ChooseCommunication, SaysNothingOfPrefetchWhereNothingIsGathered) {
  ZeroOptions zero{.stage = 2};
  EXPECT_EQ(choose_communication(zero, {}, kBeside).size(), 2U);
  EXPECT_EQ(zero.prefetch_numel, ZeroOptions{}.prefetch_numel);
}

TEST(ChooseCommunication, OneRankHasNothingToChoose) {
  ZeroOptions zero{.stage = 3};
  EXPECT_TRUE(choose_communication(zero, {}, {.parameters = 1000, .one_rank = true}).empty());
  EXPECT_EQ(zero.overlap_comm, std::nullopt);
}

TEST(ChooseCommunication, WhatTheFileSaysIsNotOpenAndAutoIs) {
  const auto open = [](const char* text) {
    return open_choices(config::read_config(text).provenance);
  };
  EXPECT_TRUE(open("{}").bucket && open("{}").overlap && open("{}").prefetch);
  const OpenChoices said = open(R"({"zero_optimization": {"overlap_comm": false,
      "reduce_bucket_size": 5e8, "prefetch_bucket_size": 5e7}})");
  EXPECT_FALSE(said.bucket || said.overlap || said.prefetch);
  EXPECT_TRUE(open(R"({"zero_optimization": {"reduce_bucket_size": "auto"}})").bucket);
}

TEST(ChooseCommunication, ThreadsFillTheCpusUnlessSomebodyLeavesSome) {
  EXPECT_EQ(rank_threads(8, 2, std::nullopt).threads, 4);
  EXPECT_FALSE(rank_threads(8, 2, std::nullopt).leave_idle_cores);
  EXPECT_EQ(rank_threads(8, 2, 3).threads, 3);
  EXPECT_TRUE(rank_threads(8, 2, 3).leave_idle_cores);
  EXPECT_EQ(rank_threads(2, 4, std::nullopt).threads, 1);
}

TEST(ChoosePrecision, FollowsTheDeviceWhereTheFileIsSilent) {
  const auto chosen = [](const char* text, bool gpu) {
    config::ReadResult read = config::read_config(text);
    choose_precision(read.config.precision, read.provenance, gpu);
    return read.config.precision.model();
  };
  EXPECT_EQ(chosen("{}", false), DType::fp32);
  EXPECT_EQ(chosen("{}", true), DType::bf16);
  EXPECT_EQ(chosen(R"({"fp16": {"enabled": "auto"}})", true), DType::bf16);
  EXPECT_EQ(chosen(R"({"fp16": {"enabled": true}})", true), DType::fp16);
  EXPECT_EQ(chosen(R"({"bf16": {"enabled": false}})", true), DType::fp32);
}

TEST(ChooseCommunication, BucketsAreNeitherTinyNorHuge) {
  ZeroOptions small, large;
  choose_communication(small, {}, {.parameters = 1000});
  choose_communication(large, {}, {.parameters = 70'000'000'000});
  EXPECT_EQ(small.reduce_bucket_numel, 1'000'000);
  EXPECT_EQ(large.reduce_bucket_numel, 50'000'000);
}

// The sizes themselves are tested beside their formulas (tests/planner/test_chosen_sizes.cpp).
TEST(ChooseCommunication, GpusOfSeveralHostsHaveTheSizesOfTheirNetwork) {
  const auto chosen = [](int ranks, const char* text) {
    const config::ReadResult read = config::read_config(text);
    ZeroOptions zero = read.config.zero;
    choose_communication(zero, open_choices(read.provenance),
                         {.parameters = 70'000'000'000,
                          .topology = {.ranks = ranks, .ranks_per_node = 8},
                          .on_accelerator = true,
                          .communicates_beside_compute = true},
                         DType::bf16);
    return zero;
  };
  const char* const kStage3 = R"({"zero_optimization": {"stage": 3}})";
  EXPECT_GT(chosen(64, kStage3).reduce_bucket_numel, 50'000'000);
  EXPECT_EQ(chosen(64, kStage3).max_live_numel, 4'000'000'000) << "else no unit is ahead";
  const char* const kSaid = R"({"zero_optimization": {"stage": 3,
      "stage3_max_live_parameters": 7, "stage3_prefetch_bucket_size": 5}})";
  EXPECT_EQ(chosen(64, kSaid).max_live_numel, 7);
  EXPECT_EQ(chosen(64, kSaid).prefetch_numel, 5);
  EXPECT_EQ(chosen(64, R"({"zero_optimization": {"stage": 2}})").max_live_numel,
            ZeroOptions{}.max_live_numel);
}

}  // namespace
}  // namespace zeroshard
