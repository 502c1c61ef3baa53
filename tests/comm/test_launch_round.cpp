// What a round launches, as arithmetic.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/comm/launch_round.h"

namespace zeroshard {
namespace {

using Lanes = std::vector<std::uint64_t>;

Lanes lanes_of(const std::vector<WaitingCall>& told) {
  Lanes lanes;
  for (const WaitingCall& each : told) lanes.push_back(each.lane);
  return lanes;
}

// As ranks send it: each list filled up to the longest.
RoundResult agreed(const std::vector<WaitingTags>& ranks, std::size_t room = 14) {
  std::vector<WaitingCall> all;
  for (const WaitingTags& rank : ranks) {
    std::vector<WaitingCall> told = told_by_turns(rank, room);
    told.resize(room);
    all.insert(all.end(), told.begin(), told.end());
  }
  return common_beginning(all, ranks.size());
}

TEST(LaunchRound, EveryLaneTellsItsFirstAndThenByTurns) {
  const WaitingTags waiting{{1, {10, 11, 12}}, {2, {20}}, {5, {50, 51}}};
  EXPECT_EQ(lanes_of(told_by_turns(waiting, 14)), (Lanes{1, 2, 5, 1, 5, 1}));
  EXPECT_EQ(lanes_of(told_by_turns(waiting, 4)), (Lanes{1, 2, 5, 1}));
  EXPECT_EQ(lanes_of(told_by_turns(waiting, 2)), (Lanes{1, 2, 5}));
  EXPECT_EQ(told_by_turns(waiting, 14)[3].tag, 11U);
  EXPECT_TRUE(told_by_turns({}, 14).empty());
}

TEST(LaunchRound, WhatAllHaveToldIsLaunchedByTurns) {
  const RoundResult result = agreed({{{1, {10, 11, 12}}, {2, {20, 21}}},
                                     {{1, {10, 11}}, {2, {20, 21, 22}}, {3, {30}}},
                                     {{1, {10, 11, 12, 13}}, {2, {20}}}});
  EXPECT_EQ(result.lanes, (Lanes{1, 2, 1}));
  EXPECT_EQ(result.different, 0U);
}

TEST(LaunchRound, ALaneThatOneRankHasNotBroughtWaits) {
  EXPECT_TRUE(agreed({{{1, {10}}}, {{2, {20}}}}).lanes.empty());
  EXPECT_TRUE(agreed({{}, {{1, {10}}}}).lanes.empty());
  EXPECT_EQ(agreed({{{1, {10}}, {2, {20}}}, {{2, {20}}}}).lanes, (Lanes{2}));
}

TEST(LaunchRound, NothingBehindADifferenceIsLaunched) {
  const RoundResult result =
      agreed({{{1, {10, 11, 12}}, {2, {20, 21}}}, {{1, {10, 99, 12}}, {2, {20, 21}}}});
  EXPECT_EQ(result.lanes, (Lanes{1, 2}));
  EXPECT_EQ(result.different, 1U);
  EXPECT_EQ(result.place, 1U);
}

// What one rank alone has told so far may be told by the others next time.
TEST(LaunchRound, WhatOneRankAloneHasToldIsNoDifference) {
  const RoundResult result = agreed({{{1, {10}}}, {{1, {10, 11}}}});
  EXPECT_EQ(result.lanes, (Lanes{1}));
  EXPECT_EQ(result.different, 0U);
}

TEST(LaunchRound, MoreLanesThanRoom) {
  WaitingTags waiting;
  for (std::uint64_t lane = 1; lane <= 20; ++lane) waiting[lane] = {lane * 10, lane * 10 + 1};
  EXPECT_EQ(told_by_turns(waiting, 14).size(), 20U);
}

}  // namespace
}  // namespace zeroshard
