// Evaluation: every sample counts once, and all ranks make the same number of batches.
#include <cstdint>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/trainer/evaluation.h"

namespace zeroshard {
namespace {

TEST(Evaluation, EverySampleCountsOnceForAnyNumberOfRanks) {
  for (const std::int64_t samples : {1, 2, 7, 16, 50}) {
    for (const std::int64_t rows : {1, 3, 8}) {
      for (const int ranks : {1, 2, 3, 5, 64}) {
        std::map<std::int64_t, int> counted;
        std::int64_t batches = -1;
        for (int rank = 0; rank < ranks; ++rank) {
          const EvaluationPlan plan(samples, {rows, rank, ranks});
          if (batches < 0) batches = plan.batch_count();
          ASSERT_EQ(plan.batch_count(), batches);
          for (std::int64_t index = 0; index < batches; ++index) {
            const EvaluationBatch batch = plan.batch(index);
            ASSERT_EQ(std::int64_t(batch.samples.size()), rows);
            ASSERT_EQ(std::int64_t(batch.counts.size()), rows);
            for (std::size_t row = 0; row < batch.samples.size(); ++row) {
              ASSERT_TRUE(batch.samples[row] >= 0 && batch.samples[row] < samples);
              if (batch.counts[row] != 0) ++counted[batch.samples[row]];
            }
          }
        }
        EXPECT_EQ(std::int64_t(counted.size()), samples) << rows << " rows, " << ranks << " ranks";
        for (const auto& [sample, times] : counted) EXPECT_EQ(times, 1) << sample;
        EXPECT_LT((batches - 1) * rows * ranks, samples) << "no batch is all filler";
      }
    }
  }
}

TEST(Evaluation, RowsAreInTheDatasOrder) {
  const EvaluationPlan first(7, {2, 0, 2}), second(7, {2, 1, 2});
  ASSERT_EQ(first.batch_count(), 2);
  EXPECT_EQ(first.batch(0).samples, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(second.batch(0).samples, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(first.batch(1).samples, (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(second.batch(1).samples, (std::vector<std::int64_t>{6, 0}));
  EXPECT_EQ(second.batch(1).counts, (std::vector<std::uint8_t>{1, 0}));
}

TEST(Evaluation, BatchesOutOfRangeAreInvariants) {
  EXPECT_THROW(EvaluationPlan(7, {2, 0, 2}).batch(2), InvariantError);
  EXPECT_THROW(EvaluationPlan(7, {2, 2, 2}), InvariantError);
}

}  // namespace
}  // namespace zeroshard
