// The stage table against the design's table, and the collective of every move.
#include <optional>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/layout/placement.h"

namespace zeroshard {
namespace {

constexpr Placement kReplicated = Placement::replicated;
constexpr Placement kPartial = Placement::partial;
constexpr Placement kSharded = Placement::sharded;

TEST(StageTable, IsTheDesignsTable) {
  const std::vector<std::vector<Placement>> expected = {
      // parameters, gradients until the last micro-step, gradients reduced, optimizer states
      {kReplicated, kPartial, kReplicated, kReplicated},
      {kReplicated, kPartial, kSharded, kSharded},
      {kReplicated, kSharded, kSharded, kSharded},
      {kSharded, kSharded, kSharded, kSharded},
  };
  for (int number = 0; number < 4; ++number) {
    SCOPED_TRACE(number);
    const Stage& stage = stage_row(number);
    const std::vector<Placement> row = {stage.parameters, stage.gradients_accumulating,
                                        stage.gradients_reduced, stage.optimizer_states};
    EXPECT_EQ(stage.number, number);
    EXPECT_EQ(row, expected[static_cast<std::size_t>(number)]);
  }
}

TEST(StageTable, HasNoOtherRows) {
  EXPECT_EQ(kStages.size(), 4u);
  EXPECT_THROW(stage_row(-1), InvariantError);
  EXPECT_THROW(stage_row(4), InvariantError);
}

// Each later stage shards what the one before it sharded, and one thing more.
TEST(StageTable, EachStageShardsOneStateMore) {
  for (std::size_t number = 0; number < 4; ++number) {
    const Stage& stage = kStages[number];
    const int sharded = (stage.optimizer_states == kSharded ? 1 : 0) +
                        (stage.gradients_accumulating == kSharded ? 1 : 0) +
                        (stage.parameters == kSharded ? 1 : 0);
    EXPECT_EQ(sharded, static_cast<int>(number));
  }
}

TEST(CollectiveFor, EveryMove) {
  using Move = std::tuple<Placement, Placement, std::optional<Collective>>;
  const std::vector<Move> moves = {
      {kReplicated, kReplicated, Collective::none},
      {kReplicated, kPartial, std::nullopt},
      {kReplicated, kSharded, Collective::slice},
      {kPartial, kReplicated, Collective::all_reduce},
      {kPartial, kPartial, Collective::none},
      {kPartial, kSharded, Collective::reduce_scatter},
      {kSharded, kReplicated, Collective::all_gather},
      {kSharded, kPartial, std::nullopt},
      {kSharded, kSharded, Collective::none},
  };
  for (const auto& [from, to, expected] : moves) {
    SCOPED_TRACE(std::string(name_of(from)) + " to " + std::string(name_of(to)));
    if (expected) {
      EXPECT_EQ(collective_for(from, to), *expected);
    } else {
      EXPECT_THROW(collective_for(from, to), InvariantError);
    }
  }
}

TEST(CollectiveFor, NamesAreTheVocabulary) {
  EXPECT_EQ(name_of(kReplicated), "replicated");
  EXPECT_EQ(name_of(kPartial), "partial");
  EXPECT_EQ(name_of(kSharded), "sharded");
  EXPECT_EQ(name_of(Collective::none), "none");
  EXPECT_EQ(name_of(Collective::all_reduce), "all_reduce");
  EXPECT_EQ(name_of(Collective::reduce_scatter), "reduce_scatter");
  EXPECT_EQ(name_of(Collective::all_gather), "all_gather");
  EXPECT_EQ(name_of(Collective::slice), "slice");
}

}  // namespace
}  // namespace zeroshard
