// FlatLayout by example: the edges and what it refuses.

#include <gtest/gtest.h>

#include "tests/layout/limits.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/flat_layout.h"

namespace zeroshard {
namespace {

TEST(FlatLayout, ThreeParametersOnTwoRanks) {
  const FlatLayout layout({100, 1, 130}, 2);
  EXPECT_EQ(layout.parameter_span(0), Span(0, 100));
  EXPECT_EQ(layout.parameter_span(1), Span(128, 129));
  EXPECT_EQ(layout.parameter_span(2), Span(192, 322));
  EXPECT_EQ(layout.numel(), 231);
  EXPECT_EQ(layout.padded_numel(), 384);
  EXPECT_EQ(layout.shard(0), Span(0, 192));
  EXPECT_EQ(layout.shard(1), Span(192, 384));
}

TEST(FlatLayout, PieceInAllItsCoordinates) {
  const FlatLayout layout({100, 300}, 2);  // the second at [128, 428), shards of 256
  const ParameterPiece first = {1, Span(128, 256), Span(0, 128), 128};
  const ParameterPiece second = {1, Span(256, 428), Span(128, 300), 0};
  EXPECT_EQ(layout.piece(1, 0), first);
  EXPECT_EQ(layout.piece(1, 1), second);
  EXPECT_EQ(layout.piece(0, 1), (ParameterPiece{0, Span(), Span(), 0}));
}

TEST(FlatLayout, ScalarsAndEmptyParameters) {
  const FlatLayout layout({0, 1, 0, 1, 0}, 2);
  EXPECT_EQ(layout.parameter_span(0), Span(0, 0));
  EXPECT_EQ(layout.parameter_span(1), Span(0, 1));
  EXPECT_EQ(layout.parameter_span(2), Span(64, 64));
  EXPECT_EQ(layout.parameter_span(3), Span(64, 65));
  EXPECT_EQ(layout.parameter_span(4), Span(128, 128));
  EXPECT_EQ(layout.padded_numel(), 128);
  EXPECT_EQ(layout.pieces(0).size(), 1u);
  EXPECT_EQ(layout.pieces(1).size(), 1u);
}

TEST(FlatLayout, NothingAtAll) {
  for (const auto& numels : {std::vector<std::int64_t>{}, std::vector<std::int64_t>{0, 0, 0}}) {
    const FlatLayout layout(numels, 5);
    EXPECT_EQ(layout.numel(), 0);
    EXPECT_EQ(layout.padded_numel(), 0);
    EXPECT_EQ(layout.shard_numel(), 0);
    EXPECT_EQ(layout.shard(4), Span(0, 0));
    EXPECT_TRUE(layout.pieces(0).empty());
    EXPECT_THROW(layout.owner_of(0), InvariantError);
  }
}

TEST(FlatLayout, OneRankStillPadsToTheAlignment) {
  const FlatLayout layout({65}, 1);
  EXPECT_EQ(layout.padded_numel(), 128);
  EXPECT_EQ(layout.shard(0), Span(0, 128));
}

TEST(FlatLayout, MoreRanksThanElements) {
  const FlatLayout layout({3}, 64);
  EXPECT_EQ(layout.shard_numel(), 64);
  EXPECT_EQ(layout.pieces(0).size(), 1u);
  EXPECT_TRUE(layout.pieces(1).empty());
  EXPECT_EQ(layout.owner_of(64 * 64 - 1), 63);
}

TEST(FlatLayout, RefusesBadArguments) {
  EXPECT_THROW(FlatLayout({5, -1}, 2), InvariantError);
  EXPECT_THROW(FlatLayout({5}, 0), InvariantError);
  EXPECT_THROW(FlatLayout({5}, -4), InvariantError);
  const FlatLayout layout({5}, 2);
  EXPECT_THROW(layout.parameter_span(1), InvariantError);
  EXPECT_THROW(layout.shard(-1), InvariantError);
  EXPECT_THROW(layout.shard(2), InvariantError);
  EXPECT_THROW(layout.piece(1, 0), InvariantError);
  EXPECT_THROW(layout.piece(0, 2), InvariantError);
  EXPECT_THROW(layout.pieces(2), InvariantError);
  EXPECT_THROW(layout.owner_of(-1), InvariantError);
  EXPECT_THROW(layout.owner_of(128), InvariantError);
}

TEST(FlatLayout, RefusesWhatDoesNotFitIn64Bits) {
  EXPECT_THROW(FlatLayout({kMax}, 1), InvariantError);            // padding
  EXPECT_THROW(FlatLayout({kMax - 64, 128}, 1), InvariantError);  // sum
  EXPECT_THROW(FlatLayout({kMax - 1, 0}, 1), InvariantError);     // alignment between two
  EXPECT_THROW(FlatLayout({kMax - 63, 1}, 64), InvariantError);   // padding to all ranks
  EXPECT_THROW(FlatLayout({kMax / 2, kMax / 2, 2}, 1), InvariantError);
  EXPECT_NO_THROW(FlatLayout({kMax - 63}, 1));
  EXPECT_EQ(FlatLayout({kMax - 63}, 1).padded_numel(), kMax - 63);
}

TEST(FlatLayout, IsAValue) {
  EXPECT_EQ(FlatLayout({5, 6}, 2), FlatLayout({5, 6}, 2));
  EXPECT_NE(FlatLayout({5, 6}, 2), FlatLayout({5, 6}, 4));
  EXPECT_NE(FlatLayout({5, 6}, 2), FlatLayout({6, 5}, 2));
}

}  // namespace
}  // namespace zeroshard
