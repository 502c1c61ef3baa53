// One configuration, settled for whoever asks: a plan, a training run, Python's engine.
#include <gtest/gtest.h>

#include "zeroshard/setup/settled_config.h"

namespace zeroshard {
namespace {

constexpr const char* kStage3 = R"({"zero_optimization": {"stage": 3}})";

TEST(SettledConfig, ChoosesForTheModelAndTheMachine) {
  const auto settled = settle_config(
      config::read_config(kStage3),
      {.communication = {.parameters = 40'000'000, .communicates_beside_compute = true},
       .on_accelerator = true});
  EXPECT_EQ(settled.config.zero.reduce_bucket_numel, 5'000'000);
  EXPECT_EQ(settled.config.zero.overlap_comm, true);
  EXPECT_TRUE(settled.config.precision.bf16.enabled);
  EXPECT_TRUE(settled.chosen_precision);
  EXPECT_EQ(settled.chosen_communication.size(), 3U);
}

TEST(SettledConfig, ThePrecisionIsTheFilesWhereNobodyAsks) {
  const auto settled = settle_config(config::read_config(kStage3), {});
  EXPECT_EQ(settled.config.precision.model(), DType::fp32);
  EXPECT_FALSE(settled.chosen_precision);
}

TEST(SettledConfig, AnotherStageIsSettledAsIfTheFileSaidIt) {
  const auto settled = settle_config(config::read_config(kStage3), {.stage = 2});
  EXPECT_EQ(settled.config.zero.stage, 2);
  EXPECT_EQ(settled.chosen_communication.size(), 2U);  // nothing is gathered ahead there
}

TEST(ParsedConfig, IsReadAgainWhenTheRanksAreKnown) {
  const char* const text = R"({"train_batch_size": 3, /* odd */ "bf cc16": 1,})";
  const auto parsed = config::parse_config(text);
  EXPECT_FALSE(config::read_config(parsed).report.has_errors());
  EXPECT_TRUE(config::read_config(parsed, {.world_size = 2}).report.has_errors());
  EXPECT_TRUE(config::read_config(parsed, {.strict = true}).report.has_errors());
  EXPECT_EQ(config::read_config(parsed).report.problems().size(),
            config::read_config(text).report.problems().size());
}

}  // namespace
}  // namespace zeroshard
