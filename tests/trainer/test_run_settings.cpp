// What a run is decided to be, and what it says of that.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/run_program.h"
#include "zeroshard/base/error.h"
#include "zeroshard/trainer/run_settings.h"

namespace zeroshard {
namespace {

// A run with this configuration.
RunSettings run_with(const std::string& config, RunFacts facts, TrainOptions options = {}) {
  const test::TemporaryFile file(config);
  options.config = file.path();
  facts.sample_count = std::max<std::int64_t>(facts.sample_count, 100);
  return resolve_run(options, facts);
}

bool assumes(const RunSettings& run, const std::string& part) {
  return std::ranges::any_of(
      run.assumed, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

TEST(RunSettings, WhatNobodySaysHasADefaultThatIsNamed) {
  const RunSettings run = resolve_run({}, {.sample_count = 100});
  EXPECT_TRUE(run.config.optimizer.has_value());
  EXPECT_EQ(run.batch.train, 8);
  EXPECT_EQ(run.steps, 13);  // the last one is of four samples
  for (const char* part : {"no --config", "no --model", "no optimizer", "no precision: fp32",
                           "no batch size: 8 per rank", "no --steps: 1 epoch"}) {
    EXPECT_TRUE(assumes(run, part)) << part;
  }
}

TEST(RunSettings, OnAGpuThePrecisionIsBf16UnlessTheFileSaysOtherwise) {
  EXPECT_TRUE(resolve_run({}, {.has_accelerator = true}).config.precision.bf16.enabled);
  const RunSettings run = run_with(R"({"bf16": {"enabled": false}})", {.has_accelerator = true});
  EXPECT_FALSE(run.config.precision.bf16.enabled);
  EXPECT_FALSE(assumes(run, "precision"));
}

TEST(RunSettings, CommunicationIsChosenWhereTheFileIsSilentOrSaysAuto) {
  const RunSettings silent = run_with(R"({"zero_optimization": {"stage": 3}})", {.world_size = 2});
  EXPECT_EQ(silent.config.zero.overlap_comm, false);
  EXPECT_EQ(silent.config.zero.reduce_bucket_numel, 1'000'000);
  EXPECT_TRUE(assumes(silent, "no overlap_comm: off"));

  const RunSettings idle =
      run_with(R"({"zero_optimization": {"stage": 3}})", {.world_size = 2, .has_idle_cores = true});
  EXPECT_EQ(idle.config.zero.overlap_comm, true);

  const RunSettings automatic = run_with(
      R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}})", {.world_size = 2});
  EXPECT_EQ(automatic.config.zero.reduce_bucket_numel, 1'000'000);

  const RunSettings said = run_with(
      R"({"zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 5e8,
          "stage3_prefetch_bucket_size": 5e7}})",
      {.world_size = 2});
  EXPECT_EQ(said.config.zero.overlap_comm, true);
  EXPECT_EQ(said.config.zero.reduce_bucket_numel, 500'000'000);
  EXPECT_EQ(said.config.zero.prefetch_numel, 50'000'000);
  EXPECT_FALSE(assumes(said, "no overlap_comm"));
}

TEST(RunSettings, OneRankHasNothingToChooseForCommunication) {
  EXPECT_FALSE(assumes(resolve_run({}, {}), "overlap_comm"));
}

TEST(RunSettings, OffloadIsWarnedAboutAndLeftOut) {
  const RunSettings run = run_with(
      R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})", {});
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_NE(run.warnings.front().find("offload_optimizer"), std::string::npos);
  EXPECT_EQ(run.config.offload.optimizer, Tier::device);
}

TEST(RunSettings, ASchedulesLengthIsTheRuns) {
  TrainOptions options;
  options.steps = 40;
  const RunSettings run =
      run_with(R"({"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}}})",
               {}, options);
  EXPECT_EQ(run.steps, 40);
  EXPECT_TRUE(assumes(run, "no total_num_steps: all 40 steps"));
}

TEST(RunSettings, ABatchThatDoesNotDivideIsRefused) {
  EXPECT_THROW(run_with(R"({"train_batch_size": 7})", {.world_size = 2}), ConfigError);
}

}  // namespace
}  // namespace zeroshard
