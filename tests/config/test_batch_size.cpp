// train = micro x accumulation x ranks: the missing parts, and the sizes that cannot be.

#include <limits>

#include "tests/config/config_support.h"
#include "zeroshard/config/batch_size.h"

namespace zeroshard::config {
namespace {

using Size = std::optional<std::int64_t>;

BatchOptions given(Size train, Size micro, Size accumulation) {
  BatchOptions batch;
  batch.train = train;
  batch.micro_per_rank = micro;
  batch.accumulation = accumulation;
  return batch;
}

std::optional<BatchSizes> solved(Size train, Size micro, Size accumulation, int ranks) {
  return solve_batch(given(train, micro, accumulation), ranks).sizes;
}

TEST(BatchSize, FollowsTheTableOfTheReference) {
  EXPECT_EQ(solved(64, 4, 2, 8), (BatchSizes{64, 4, 2}));
  EXPECT_EQ(solved(64, 4, {}, 8), (BatchSizes{64, 4, 2}));
  EXPECT_EQ(solved(64, {}, 2, 8), (BatchSizes{64, 4, 2}));
  EXPECT_EQ(solved({}, 4, 2, 8), (BatchSizes{64, 4, 2}));
  EXPECT_EQ(solved(64, {}, {}, 8), (BatchSizes{64, 8, 1}));
  EXPECT_EQ(solved({}, 4, {}, 8), (BatchSizes{32, 4, 1}));
}

TEST(BatchSize, AgreesWithThePeersCases) {
  EXPECT_TRUE(solved(32, 16, 1, 2));
  EXPECT_TRUE(solved(32, 8, 2, 2));
  EXPECT_FALSE(solved(33, 17, 2, 2));
  EXPECT_FALSE(solved(32, 18, 1, 2));
}

TEST(BatchSize, NothingOrAccumulationAloneIsNoProblem) {
  for (const BatchOptions& batch : {given({}, {}, {}), given({}, {}, 4)}) {
    const SolvedBatch result = solve_batch(batch, 8);
    EXPECT_FALSE(result.sizes);
    EXPECT_TRUE(result.what.empty());
  }
}

TEST(BatchSize, MostRanksAreThoseThatFit) {
  EXPECT_EQ(most_ranks(given({}, {}, {}), 4), 4);
  EXPECT_EQ(most_ranks(given({}, 5, {}), 4), 4);
  EXPECT_EQ(most_ranks(given(8, {}, {}), 4), 4);
  EXPECT_EQ(most_ranks(given(6, {}, {}), 4), 3);
  EXPECT_EQ(most_ranks(given(6, 2, 3), 4), 1);
  EXPECT_EQ(most_ranks(given(7, 2, 3), 4), 4) << "no number fits, and the error is of as many";
}

// All that fit, by trying: what was not given may be anything, but the accumulation is 1 where only
// one size was given (so does DeepSpeed).
std::vector<BatchSizes> fitting(const BatchOptions& batch, std::int64_t ranks) {
  constexpr std::int64_t kMost = 36;
  const bool accumulates = batch.accumulation || (batch.train && batch.micro_per_rank);
  std::vector<BatchSizes> all;
  for (std::int64_t micro = 1; micro <= kMost; ++micro) {
    if (batch.micro_per_rank && micro != *batch.micro_per_rank) continue;
    for (std::int64_t steps = 1; steps <= (accumulates ? kMost : 1); ++steps) {
      if (batch.accumulation && steps != *batch.accumulation) continue;
      const std::int64_t train = micro * steps * ranks;
      if (!batch.train || *batch.train == train) all.push_back({train, micro, steps});
    }
  }
  return all;
}

TEST(BatchSize, AgreesWithTryingForAllCombinationsOfGivenSizes) {
  int solvable = 0, unsolvable = 0;
  for (int ranks : {1, 2, 3, 4, 7}) {
    for (int which = 1; which < 8; ++which) {
      const bool has_train = (which & 1) != 0, has_micro = (which & 2) != 0;
      if (!has_train && !has_micro) continue;
      for (std::int64_t train = 1; train <= (has_train ? 30 : 1); ++train) {
        for (std::int64_t micro = 1; micro <= (has_micro ? 6 : 1); ++micro) {
          for (std::int64_t steps = 1; steps <= ((which & 4) != 0 ? 6 : 1); ++steps) {
            const BatchOptions batch =
                given(has_train ? Size(train) : Size(), has_micro ? Size(micro) : Size(),
                      (which & 4) != 0 ? Size(steps) : Size());
            const auto expected = fitting(batch, ranks);
            const SolvedBatch result = solve_batch(batch, ranks);
            ASSERT_LE(expected.size(), 1U);
            ASSERT_EQ(result.sizes.has_value(), !expected.empty())
                << which << ": " << train << ' ' << micro << ' ' << steps << ' ' << ranks;
            ASSERT_TRUE(!result.sizes || *result.sizes == expected.front());
            ASSERT_EQ(result.what.empty(), result.sizes.has_value());
            ASSERT_EQ(result.remedy.empty(), result.sizes.has_value());
            ++(result.sizes ? solvable : unsolvable);
          }
        }
      }
    }
  }
  EXPECT_GT(solvable, 500);
  EXPECT_GT(unsolvable, 500);
}

TEST(BatchSize, WithoutAWorldSizeAsksWhetherAnyWouldDo) {
  for (std::int64_t train = 1; train <= 30; ++train) {
    for (std::int64_t micro = 0; micro <= 7; ++micro) {
      for (std::int64_t steps = 0; steps <= 7; ++steps) {
        const BatchOptions batch =
            given(train, micro > 0 ? Size(micro) : Size(), steps > 0 ? Size(steps) : Size());
        bool some_fit = false;
        for (int ranks = 1; ranks <= 30 && !some_fit; ++ranks) {
          some_fit = !fitting(batch, ranks).empty();
        }
        ASSERT_EQ(check_batch(batch).what.empty(), some_fit)
            << train << ' ' << micro << ' ' << steps;
      }
    }
  }
}

TEST(BatchSize, WhereAllThreeAreGivenTheRemedyNamesTheOnlyOneThatFits) {
  const SolvedBatch result = solve_batch(given(128, 8, 2), 4);
  EXPECT_EQ(result.what, "128 is not micro batch 8 x accumulation 2 x 4 ranks, which is 64");
  EXPECT_EQ(result.remedy, "write 64, or leave one of the three sizes out");
  EXPECT_TRUE(solved(64, 8, 2, 4));
  EXPECT_FALSE(solved(192, 8, 2, 4)) << "no other multiple does";
}

TEST(BatchSize, WhereOneIsDerivedTheRemedyNamesAUnitThatWorks) {
  const SolvedBatch result = solve_batch(given(33, 17, {}), 2);
  EXPECT_EQ(result.what, "33 is less than micro batch 17 x 2 ranks");
  EXPECT_EQ(result.remedy, "choose a multiple of 34");
  EXPECT_EQ(solve_batch(given(35, 17, {}), 2).what,
            "35 cannot be divided by micro batch 17 x 2 ranks");
  EXPECT_TRUE(solved(68, 17, {}, 2));
}

TEST(BatchSize, NobodyReadsOfAnAccumulationOfZero) {
  for (const BatchOptions& batch : {given(4, 8, {}), given(2, {}, {}), given(3, {}, 5)}) {
    for (const SolvedBatch& result : {solve_batch(batch, 4), check_batch(batch)}) {
      EXPECT_EQ(result.what.find(" 0"), std::string::npos) << result.what;
    }
  }
  EXPECT_EQ(solve_batch(given(2, {}, {}), 4).what, "2 is less than 4 ranks");
}

TEST(BatchSize, ProductsBeyond64BitsAreRefused) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const BatchOptions& batch :
       {given({}, kHuge, 2), given({}, kHuge, {}), given(kHuge, kHuge, kHuge),
        given({}, 3'037'000'500, 3'037'000'500)}) {
    const SolvedBatch result = solve_batch(batch, 2);
    EXPECT_FALSE(result.sizes);
    EXPECT_FALSE(result.what.empty());
  }
  EXPECT_TRUE(solved(kHuge, {}, {}, 1));
  EXPECT_FALSE(check_batch(given(kHuge, kHuge, kHuge)).what.empty());
}

TEST(BatchSize, AFileThatDoesNotFitIsToldSoAtTheTotal) {
  const char* text = R"({
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 2,
  "train_batch_size": 30
})";
  EXPECT_EQ(problems_of(text), (Lines{"4:23 error contradiction train_batch_size"}));
  EXPECT_EQ(problems_of(text, {.world_size = 3}),
            (Lines{"4:23 error contradiction train_batch_size"}));
  const std::string fits = R"({"train_micro_batch_size_per_gpu": 4, "train_batch_size": 24})";
  EXPECT_TRUE(problems_of(fits).empty());
  EXPECT_TRUE(problems_of(fits, {.world_size = 3}).empty());
  EXPECT_EQ(kinds_of_problems(fits, {.world_size = 4}),
            (Lines{"error contradiction train_batch_size"}));
}

}  // namespace
}  // namespace zeroshard::config
