// What a run is decided to be, and what it says of that.
#include <algorithm>
#include <string>
#include <variant>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/run_program.h"
#include "zeroshard/base/error.h"
#include "zeroshard/planner/footprint.h"
#include "zeroshard/trainer/run_plan.h"
#include "zeroshard/trainer/run_settings.h"

namespace zeroshard {
namespace {

RunSettings resolved(const TrainOptions& options, const RunFacts& facts) {
  const auto read = read_config_of(options, parse_config_of(options), facts.world_size);
  return resolve_run(options, read, facts);
}

// A run with this configuration.
RunSettings run_with(const std::string& config, RunFacts facts, TrainOptions options = {}) {
  const test::TemporaryFile file(config);
  options.config = file.path();
  facts.sample_count = std::max<std::int64_t>(facts.sample_count, 100);
  return resolved(options, facts);
}

bool assumes(const RunSettings& run, const std::string& part) {
  return std::ranges::any_of(
      run.assumed, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

TEST(RunSettings, WhatNobodySaysHasADefaultThatIsNamed) {
  const RunSettings run = resolved({}, {.sample_count = 100});
  EXPECT_TRUE(run.config.optimizer.has_value());
  EXPECT_EQ(run.batch.train, 8);
  EXPECT_EQ(run.steps, 13);  // the last one is of four samples
  for (const char* part : {"no --config", "no --model", "no optimizer", "no precision: fp32",
                           "no batch size: 8 per rank", "no --steps: 1 epoch"}) {
    EXPECT_TRUE(assumes(run, part)) << part;
  }
}

TEST(RunSettings, OnAGpuThePrecisionIsBf16UnlessTheFileSaysOtherwise) {
  EXPECT_TRUE(resolved({}, {.has_accelerator = true}).config.precision.bf16.enabled);
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
  EXPECT_FALSE(assumes(resolved({}, {}), "overlap_comm"));
}

TEST(RunSettings, KeepsWhatTheFileSaysOfOffload) {
  const RunSettings run = run_with(
      R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
          "zeroshard": {"device_budget": "1GiB", "speculative_update": true}})",
      {});
  EXPECT_EQ(run.config.offload.optimizer, Tier::host);
  EXPECT_EQ(run.config.zero.device_budget_bytes, 1 << 30);
  EXPECT_EQ(run.config.zero.speculative_update, true);
}

// The engine keeps G in fp32 where micro-steps add up in it, whoever has said how many there are.
TEST(RunSettings, TheGradientIsPlannedAlikeWhereAccumulationIsGivenAndDerived) {
  const auto gradients = [](const std::string& accumulation) {
    const RunSettings run =
        run_with(fmt::format(R"({{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4, {}
                         "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": 2}}}})",
                             accumulation),
                 {.world_size = 2});
    return footprint(layout_of(run, 2), footprint_options(run.config, run.batch.accumulation))
        .bytes(Category::gradients, Tier::device);
  };
  EXPECT_EQ(gradients(""), gradients(R"("gradient_accumulation_steps": 2,)"));
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

TEST(RunSettings, FewSamplesMakeASmallDefaultBatch) {
  EXPECT_EQ(resolved({}, {.sample_count = 3}).batch.train, 3);
  EXPECT_EQ(resolved({}, {.world_size = 2, .sample_count = 5}).batch.train, 4);
  EXPECT_EQ(resolved({}, {.world_size = 2, .sample_count = 1000}).batch.train, 16);
}

TEST(RunSettings, AStepOfMoreSamplesThanThereAreIsRefused) {
  TrainOptions options;
  options.batch_size = 16;
  EXPECT_THROW(resolved(options, {.sample_count = 15}), ConfigError);
  EXPECT_EQ(resolved(options, {.sample_count = 16}).steps, 1);
}

// What the run says that the command line has replaced, in one line.
std::string replaced(const RunSettings& run) {
  return run.replaced.empty() ? "" : run.replaced.front();
}

RunSettings run_with_rate(const std::string& config, double lr) {
  TrainOptions options;
  options.lr = lr;
  return run_with(config, {}, options);
}

TEST(RunSettings, ARateInPlaceOfTheFiles) {
  const RunSettings run =
      run_with_rate(R"({"optimizer": {"type": "SGD", "params": {"lr": 0.5}}})", 0.25);
  EXPECT_EQ(learning_rate(*run.config.optimizer), 0.25);
  EXPECT_EQ(replaced(run), "--lr 0.25 in place of lr 0.5");
  const RunSettings silent = run_with_rate("{}", 0.25);
  EXPECT_EQ(learning_rate(*silent.config.optimizer), 0.25);
  EXPECT_TRUE(assumes(silent, "no optimizer: AdamW, lr 0.25"));
  EXPECT_EQ(replaced(silent), "");
}

TEST(RunSettings, TheRateIsTheHighestOfASchedule) {
  const auto with = [](const std::string& type, const std::string& params) {
    return run_with_rate(R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.5}},
                             "scheduler": {"type": ")" +
                             type + R"(", "params": {)" + params + "}}}",
                         0.25);
  };
  const RunSettings warm = with("WarmupLR", R"("warmup_max_lr": 0.125)");
  EXPECT_EQ(std::get<WarmupLrOptions>(*warm.config.scheduler).max_lr, 0.25);
  EXPECT_EQ(replaced(warm), "--lr 0.25 in place of lr 0.5, warmup_max_lr 0.125");
  const RunSettings decay =
      with("WarmupDecayLR", R"("warmup_max_lr": 0.125, "total_num_steps": 9)");
  EXPECT_EQ(std::get<WarmupDecayLrOptions>(*decay.config.scheduler).max_lr, 0.25);
  const RunSettings cosine = with("WarmupCosineLR", R"("total_num_steps": 9)");
  EXPECT_EQ(replaced(cosine), "--lr 0.25 in place of lr 0.5");
  EXPECT_THROW(with("WarmupLR", R"("warmup_min_lr": 0.3, "warmup_max_lr": 0.4)"), ConfigError);
  EXPECT_THROW(with("LRRangeTest", ""), ConfigError);
  EXPECT_THROW(with("OneCycle", R"("cycle_min_lr": 0.1, "cycle_max_lr": 0.2)"), ConfigError);
}

struct BatchCase {
  const char* config;
  config::BatchSizes sizes;  // of a batch of 8 on two ranks
  const char* replaced;
};

TEST(RunSettings, ABatchSizeInPlaceOfTheFilesKeepsWhatFits) {
  TrainOptions options;
  options.batch_size = 8;
  const BatchCase cases[] = {
      {"{}", {8, 4, 1}, ""},
      {R"({"train_batch_size": 7})", {8, 4, 1}, "train_batch_size 7"},
      {R"({"train_micro_batch_size_per_gpu": 2})", {8, 2, 2}, ""},
      {R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2})", {8, 2, 2}, ""},
      {R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 5})",
       {8, 2, 2},
       "gradient_accumulation_steps 5"},
      {R"({"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2})",
       {8, 2, 2},
       "train_micro_batch_size_per_gpu 3"},
      {R"({"train_micro_batch_size_per_gpu": 16})",
       {8, 4, 1},
       "train_micro_batch_size_per_gpu 16"}};
  for (const BatchCase& one : cases) {
    const RunSettings run = run_with(one.config, {.world_size = 2}, options);
    EXPECT_EQ(run.batch, one.sizes) << one.config;
    const std::string says = one.replaced;
    EXPECT_EQ(replaced(run), says.empty() ? "" : "--batch-size 8 in place of " + says);
  }
  options.batch_size = 7;
  EXPECT_THROW(run_with("{}", {.world_size = 2}, options), ConfigError);
}

// With several micro-steps G adds up in fp32, so that a smaller micro-batch may need more memory.
TEST(RunSettings, AnAutomaticMicroBatchFitsWithTheMicroStepsThatItLeaves) {
  const std::string config = R"({"bf16": {"enabled": true}, "train_batch_size": 12,
      "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}})";
  const TrainOptions options{.model = "gpt:layers=4,hidden=128,heads=4,seq=32,vocab=512"};
  int chosen = 0;
  for (std::int64_t kib = 10'000; kib <= 16'000; kib += 100) {
    const RunFacts facts{.world_size = 2, .memory = {.device = kib << 10}, .memory_is_given = true};
    try {
      const RunSettings run = run_with(config, facts, options);
      EXPECT_TRUE(fits_memory(run, plan_of(run, facts, {}), facts)) << kib << " KiB";
      ++chosen;
    } catch (const ConfigError& error) {
      EXPECT_EQ(chosen, 0) << kib << " KiB: " << error.what();
    }
  }
  EXPECT_GT(chosen, 20);
}

}  // namespace
}  // namespace zeroshard
