// Batch sizes of a configuration, for the ranks that there are.
#include <string>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/trainer/batch_shape.h"

namespace zeroshard {
namespace {

BatchShape shape_on(int ranks, const BatchOptions& batch, int rank = 0) {
  BatchShape shape;
  run_ranks(ranks, {}, [&](Communicator& comm) {
    const BatchShape own = batch_shape(batch, comm, 8);
    if (comm.rank() == rank) shape = own;
  });
  return shape;
}

TEST(BatchShape, TheFilesSizesOverTheRanks) {
  const BatchShape shape = shape_on(2, {.train = 24, .accumulation = 3}, 1);
  EXPECT_EQ(shape.micro_per_rank, 4);
  EXPECT_EQ(shape.accumulation, 3);
  EXPECT_EQ(shape.rank, 1);
  EXPECT_EQ(shape.world_size, 2);
  EXPECT_EQ(shape.global(), 24);
}

TEST(BatchShape, TheCallersSizeWhereTheFileGivesNone) {
  EXPECT_EQ(shape_on(1, {}).micro_per_rank, 8);
  EXPECT_EQ(shape_on(4, {}).micro_per_rank, 2);
  const BatchShape with_micro_steps = shape_on(2, {.accumulation = 2});
  EXPECT_EQ(with_micro_steps.micro_per_rank, 2);
  EXPECT_EQ(with_micro_steps.global(), 8);
}

TEST(BatchShape, WhatDoesNotFitTheRanksIsSaid) {
  try {
    shape_on(2, {.train = 7});
    FAIL() << "7 samples were shared out to 2 ranks";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("7 cannot be divided by 2 ranks"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("multiple of 2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(shape_on(3, {}), ConfigError);  // 8 over 3
}

}  // namespace
}  // namespace zeroshard
