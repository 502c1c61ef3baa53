// How long a collective takes, by how many ranks there are and where they are.
#include <gtest/gtest.h>

#include "zeroshard/planner/collective_time.h"

namespace zeroshard {
namespace {

constexpr double kNear = 1e-12;

Rates rates() {
  return {.near_bytes = {400e9},
          .far_bytes = {40e9},
          .collective_seconds = {10e-6},
          .near_hop_seconds = {3e-6},
          .far_hop_seconds = {20e-6}};
}

TEST(CollectiveTime, ARingHasAHopFewerThanRanks) {
  const auto latency = [](int ranks, int per_node) {
    return latency_seconds({.ranks = ranks, .ranks_per_node = per_node}, rates(), Route::ring);
  };
  EXPECT_EQ(latency(1, 1), 0);
  EXPECT_NEAR(latency(2, 2), 13e-6, kNear);
  EXPECT_NEAR(latency(8, 8), (10 + 7 * 3) * 1e-6, kNear);
  EXPECT_NEAR(latency(64, 8), (10 + 7 * 20 + 56 * 3) * 1e-6, kNear) << "seven leave a host";
  EXPECT_NEAR(latency(4, 1), (10 + 3 * 20) * 1e-6, kNear);
  EXPECT_NEAR(latency(12, 8), (10 + 20 + 10 * 3) * 1e-6, kNear) << "a host may be half full";
}

TEST(CollectiveTime, DirectMessagesHopOnce) {
  const auto latency = [](int ranks, int per_node) {
    return latency_seconds({.ranks = ranks, .ranks_per_node = per_node}, rates(), Route::direct);
  };
  EXPECT_NEAR(latency(8, 8), 13e-6, kNear);
  EXPECT_NEAR(latency(64, 8), 30e-6, kNear);
}

TEST(CollectiveTime, HopsThatWereMeasuredCountOnce) {
  Rates measured = rates();
  measured.measured_hops = 7;
  const auto latency = [&](int ranks) {
    return latency_seconds({.ranks = ranks, .ranks_per_node = 8}, measured, Route::ring);
  };
  EXPECT_NEAR(latency(8), 10e-6, kNear);
  EXPECT_NEAR(latency(4), 10e-6, kNear) << "never less than what was measured";
  EXPECT_NEAR(latency(16), (10 + 20 + 7 * 3) * 1e-6, kNear);
}

// Its way out of a host carries all that one rank sends, in as many parts as there are cards.
TEST(CollectiveTime, ARingUsesAllCardsOfAHost) {
  const auto bandwidth = [](const Topology& topology) {
    return bytes_per_second(topology, rates(), Route::ring);
  };
  EXPECT_DOUBLE_EQ(bandwidth({.ranks = 8, .ranks_per_node = 8}), 400e9);
  EXPECT_DOUBLE_EQ(bandwidth({.ranks = 64, .ranks_per_node = 8}), 320e9);
  EXPECT_DOUBLE_EQ(bandwidth({.ranks = 64, .ranks_per_node = 16}), 400e9) << "NVLink is slower";
  EXPECT_DOUBLE_EQ(bandwidth({.ranks = 64, .ranks_per_node = 8, .nics_per_node = 1}), 40e9);
  EXPECT_DOUBLE_EQ(bandwidth({.ranks = 64, .ranks_per_node = 1}), 40e9);
}

// Of 63 others 56 are elsewhere, and 8 ranks talk to them.
TEST(CollectiveTime, DirectMessagesAllLeaveTheHost) {
  const auto bandwidth = [](const Topology& topology) {
    return bytes_per_second(topology, rates(), Route::direct);
  };
  EXPECT_DOUBLE_EQ(bandwidth({.ranks = 8, .ranks_per_node = 8}), 400e9);
  EXPECT_DOUBLE_EQ(bandwidth({.ranks = 64, .ranks_per_node = 8}), 40e9 * 63 / 56);
  EXPECT_DOUBLE_EQ(bandwidth({.ranks = 64, .ranks_per_node = 8, .nics_per_node = 1}),
                   40e9 * 63 / 56 / 8);
}

TEST(CollectiveTime, IsLatencyAndBytes) {
  const Topology topology{.ranks = 64, .ranks_per_node = 8};
  EXPECT_NEAR(collective_seconds(topology, rates(), Route::ring, 320'000'000),
              (10 + 7 * 20 + 56 * 3) * 1e-6 + 1e-3, kNear);
  EXPECT_EQ(collective_seconds({}, rates(), Route::ring, 1'000'000), 0) << "of one rank";
}

TEST(CollectiveTime, WhatWasSeenBetweenHostsIsFoundAgain) {
  for (const Route route : {Route::ring, Route::direct}) {
    const Topology topology{.ranks = 32, .ranks_per_node = 4};
    Rates measured = rates();
    measured.far_bytes = {nic_bytes_per_second(topology, route, 25e9)};
    EXPECT_DOUBLE_EQ(bytes_per_second(topology, measured, route), 25e9);
  }
}

TEST(CollectiveTime, SumsInRankOrderGoStraightToTheirOwners) {
  EXPECT_EQ(reduce_route(true, false), Route::ring);
  EXPECT_EQ(reduce_route(true, true), Route::direct);
  EXPECT_EQ(reduce_route(false, false), Route::direct);
  EXPECT_EQ(gather_route(true), Route::ring);
  EXPECT_EQ(gather_route(false), Route::direct);
}

}  // namespace
}  // namespace zeroshard
