// Which rank takes which sample: the global batch never depends on the number of ranks, and every
// saved position goes on as the run would have.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/run_program.h"
#include "zeroshard/base/error.h"
#include "zeroshard/trainer/batches.h"

namespace zeroshard::test {
namespace {

using Samples = std::vector<std::int64_t>;

struct Triad {
  std::int64_t micro_per_rank, accumulation;
  int world_size;
};

// All that split a global batch of 12.
const std::vector<Triad> kTwelve{{12, 1, 1}, {1, 12, 1}, {3, 4, 1}, {6, 1, 2}, {3, 2, 2},
                                 {1, 6, 2},  {4, 1, 3},  {2, 2, 3}, {3, 1, 4}, {1, 3, 4},
                                 {2, 1, 6},  {1, 2, 6},  {1, 1, 12}};

BatchPlan plan_of(std::int64_t samples, const Triad& triad, const StreamOptions& stream,
                  int rank = 0) {
  return {samples,
          {.micro_per_rank = triad.micro_per_rank,
           .accumulation = triad.accumulation,
           .rank = rank,
           .world_size = triad.world_size},
          stream};
}

// The global batch in the order of its rows, put together from all ranks.
Samples global_batch(std::int64_t samples, const Triad& triad, const StreamOptions& stream,
                     std::int64_t step) {
  std::vector<BatchPlan> ranks;
  for (int rank = 0; rank < triad.world_size; ++rank) {
    ranks.push_back(plan_of(samples, triad, stream, rank));
    for (std::int64_t i = 0; i < step; ++i) ranks.back().advance();
  }
  Samples rows;
  for (std::int64_t micro = 0; micro < triad.accumulation; ++micro) {
    for (const BatchPlan& plan : ranks) {
      const Samples part = plan.samples_of(micro);
      rows.insert(rows.end(), part.begin(), part.end());
    }
  }
  return rows;
}

// The stream by its definition: epoch after epoch.
Samples stream_part(std::int64_t samples, const DataPosition& from, std::int64_t count) {
  Samples part;
  for (std::int64_t at = from.samples; at < from.samples + count; ++at) {
    const SampleOrder order(samples, {.seed = from.seed, .epoch = at / samples});
    part.push_back(order.sample_at(at % samples));
  }
  return part;
}

TEST(Batches, AStepsSamplesDoNotDependOnTheRanks) {
  for (const bool drop_last : {false, true}) {
    for (const std::int64_t samples : {12, 13, 50, 100}) {
      const StreamOptions stream{.drop_last = drop_last, .start = {.samples = 0, .seed = 9}};
      for (const std::int64_t step : {0, 1, 3, 7, 20}) {
        const Samples one = global_batch(samples, kTwelve[0], stream, step);
        ASSERT_EQ(one.size(), 12U);
        for (const Triad& triad : kTwelve) {
          EXPECT_EQ(global_batch(samples, triad, stream, step), one)
              << triad.micro_per_rank << "*" << triad.accumulation << "*" << triad.world_size;
        }
      }
    }
  }
}

// As data loaders of other engines cut it: rows (micro * world + rank) * mb and following.
TEST(Batches, ARankTakesItsRowsOfTheGlobalBatch) {
  const Triad triad{.micro_per_rank = 2, .accumulation = 2, .world_size = 3};
  const StreamOptions stream{.drop_last = false, .start = {.samples = 5, .seed = 1}};
  const Samples rows = stream_part(40, stream.start, 12);
  for (int rank = 0; rank < 3; ++rank) {
    const BatchPlan plan = plan_of(40, triad, stream, rank);
    for (int micro = 0; micro < 2; ++micro) {
      const auto first = rows.begin() + (micro * 3 + rank) * 2;
      EXPECT_EQ(plan.samples_of(micro), Samples(first, first + 2));
    }
  }
}

TEST(Batches, AnEpochHasEverySampleOnceAndTheStreamGoesOn) {
  const StreamOptions stream{.drop_last = false, .start = {.samples = 0, .seed = 3}};
  BatchPlan plan = plan_of(30, {7, 1, 1}, stream);
  EXPECT_EQ(plan.steps_per_epoch(), 5);
  Samples read;
  for (int step = 0; step < 13; ++step, plan.advance()) {
    EXPECT_EQ(plan.epoch(), step * 7 / 30);
    const Samples part = plan.samples_of(0);
    read.insert(read.end(), part.begin(), part.end());
  }
  EXPECT_EQ(read, stream_part(30, stream.start, 91));
  for (int epoch = 0; epoch < 3; ++epoch) {
    Samples part(read.begin() + epoch * 30, read.begin() + epoch * 30 + 30);
    std::ranges::sort(part);
    for (int i = 0; i < 30; ++i) EXPECT_EQ(part[std::size_t(i)], i);
  }
}

TEST(Batches, AStepMayBeLargerThanTheData) {
  const StreamOptions stream{.drop_last = false, .start = {.samples = 2, .seed = 3}};
  EXPECT_EQ(plan_of(5, {12, 1, 1}, stream).samples_of(0), stream_part(5, stream.start, 12));
}

TEST(Batches, DropLastPassesOverTheRest) {
  const StreamOptions stream{.drop_last = true, .start = {.samples = 0, .seed = 3}};
  BatchPlan plan = plan_of(30, {7, 1, 1}, stream);
  EXPECT_EQ(plan.steps_per_epoch(), 4);
  for (int step = 0; step < 12; ++step, plan.advance()) {
    const std::int64_t begin = step / 4 * 30 + step % 4 * 7;
    EXPECT_EQ(plan.position().samples, begin);
    EXPECT_EQ(plan.epoch(), step / 4);
    EXPECT_EQ(plan.samples_of(0), stream_part(30, {begin, 3}, 7));
  }
}

TEST(Batches, DropLastDropsNothingWhereStepsFit) {
  BatchPlan plan = plan_of(28, {7, 1, 1}, {.drop_last = true, .start = {}});
  for (int step = 0; step < 12; ++step, plan.advance()) {
    EXPECT_EQ(plan.position().samples, step * 7);
  }
}

TEST(Batches, DropLastWithoutAFullStepIsRefused) {
  try {
    plan_of(6, {7, 1, 1}, {.drop_last = true, .start = {}});
    FAIL() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("6 samples, 7 in a step"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("dataloader_drop_last"), std::string::npos);
  }
}

TEST(Batches, ManyStepsAtOnceAreTheSameAsOneByOne) {
  for (const bool drop_last : {false, true}) {
    for (const std::int64_t start : {0, 1, 6, 29, 30, 1000}) {
      const StreamOptions stream{.drop_last = drop_last, .start = {.samples = start, .seed = 3}};
      BatchPlan slow = plan_of(30, {7, 1, 1}, stream);
      for (std::int64_t steps = 0; steps < 40; ++steps, slow.advance()) {
        BatchPlan fast = plan_of(30, {7, 1, 1}, stream);
        fast.advance(steps);
        ASSERT_EQ(fast.position(), slow.position()) << drop_last << " " << start << " " << steps;
      }
    }
  }
}

TEST(Batches, ASavedPositionGoesOn) {
  for (const bool drop_last : {false, true}) {
    const StreamOptions stream{.drop_last = drop_last, .start = {.samples = 0, .seed = 77}};
    BatchPlan plan = plan_of(30, {7, 1, 1}, stream);
    for (int step = 0; step < 20; ++step, plan.advance()) {
      const BatchPlan resumed =
          plan_of(30, {7, 1, 1}, {.drop_last = drop_last, .start = plan.position()});
      EXPECT_EQ(resumed.samples_of(0), plan.samples_of(0));
      EXPECT_EQ(resumed.position(), plan.position());
    }
  }
}

// With another batch size and number of ranks the stream goes on from the same sample.
TEST(Batches, APositionMeansTheSameForAnotherBatchSize) {
  BatchPlan before = plan_of(100, {4, 2, 3}, {.drop_last = false, .start = {0, 5}});
  before.advance(3);
  const StreamOptions stream{.drop_last = false, .start = before.position()};
  EXPECT_EQ(global_batch(100, {5, 1, 2}, stream, 0), stream_part(100, {72, 5}, 10));
}

TEST(Batches, FillsRowsAndTheirTargets) {
  const TemporaryFile file("abcdefghijk");  // samples of 2: ab, cd, ef, gh, ij
  const TokenFiles files({.files = {file.path()}, .sequence_length = 2});
  ASSERT_EQ(files.sample_count(), 5);
  Samples inputs(6), targets(6);
  fill_batch(files, Samples{4, 0, 2}, inputs, targets);
  EXPECT_EQ(inputs, (Samples{'i', 'j', 'a', 'b', 'e', 'f'}));
  EXPECT_EQ(targets, (Samples{'j', 'k', 'b', 'c', 'f', 'g'}));
  Samples narrow(5);
  EXPECT_THROW(fill_batch(files, Samples{4, 0, 2}, narrow, targets), InvariantError);
}

}  // namespace
}  // namespace zeroshard::test
