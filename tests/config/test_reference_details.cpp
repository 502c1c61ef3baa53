// Small rules of the reference that are easy to lose.

#include "tests/config/config_support.h"
#include "zeroshard/base/error.h"
#include "zeroshard/config/batch_size.h"

namespace zeroshard::config {
namespace {

TEST(ReferenceDetails, DeviceNamesAreExact) {
  EXPECT_EQ(kinds_of_problems(nested("zero_optimization.offload_optimizer.device", "\"CPU\"")),
            (Lines{"error wrong_type zero_optimization.offload_optimizer.device"}));
}

TEST(ReferenceDetails, PinMemorySwitchMayStandBesideItsSuccessor) {
  EXPECT_EQ(kinds_of_problems(R"({"zero_optimization": {"cpu_offload_use_pin_memory": true,
                                   "offload_optimizer": {"device": "cpu"}}})"),
            (Lines{"warning deprecated zero_optimization.cpu_offload_use_pin_memory"}));
}

TEST(ReferenceDetails, NoMicsMeansZeroOrLess) {
  for (const char* off : {"-1", "0", "-7"}) {
    EXPECT_TRUE(problems_of(nested("zero_optimization.mics_shard_size", off)).empty()) << off;
  }
  EXPECT_EQ(kinds_of_problems(nested("zero_optimization.mics_shard_size", "8")),
            (Lines{"warning no_effect zero_optimization.mics_shard_size"}));
}

TEST(ReferenceDetails, AnAliasBesideNullIsGivenOnce) {
  const char* text = R"({"zero_optimization": {"prefetch_bucket_size": 5,
                                               "stage3_prefetch_bucket_size": null}})";
  EXPECT_EQ(good_config(text).zero.prefetch_numel, 5);
}

TEST(ReferenceDetails, AnUnknownWarmupTypeIsLogWithAWarning) {
  const char* text = R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "cosine"}}})";
  EXPECT_EQ(kinds_of_problems(text), (Lines{"warning out_of_range scheduler.params.warmup_type"}));
  const Config config = read_config(text).config;
  EXPECT_EQ(std::get<WarmupLrOptions>(*config.scheduler).shape, WarmupShape::log);
}

TEST(ReferenceDetails, OneCycleSaysWhatItsFormulasDo) {
  const char* text = R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0,
      "cycle_max_lr": 1, "cycle_second_step_size": 0, "decay_step_size": 2,
      "decay_mom_rate": 0.1}}})";
  EXPECT_EQ(kinds_of_problems(text),
            (Lines{"warning contradiction scheduler.params.cycle_second_step_size",
                   "warning contradiction scheduler.params.decay_mom_rate"}));
}

TEST(ReferenceDetails, BudgetsAreShownAsTheyCanBeWritten) {
  for (const auto& [written, shown] : {std::pair{"\"10GiB\"", "\"10GiB\""},
                                       {"\"10GB\"", "\"9765625KiB\""},
                                       {"1001", "\"1001\""}}) {
    const ReadResult read = read_config(nested("zeroshard.device_budget", written));
    EXPECT_EQ(explained(read, "zeroshard.device_budget").value, shown);
  }
}

TEST(ReferenceDetails, RanksMustBePositive) {
  EXPECT_THROW(read_config("{}", {.world_size = 0}), ConfigError);
  EXPECT_THROW(read_config("{}", {.world_size = -3}), ConfigError);
  EXPECT_THROW(solve_batch({}, 0), InvariantError);
}

// A megabyte of keys on one line: each character is looked at once, so this takes a blink.
TEST(ReferenceDetails, ManyKeysAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 60'000; ++i) text += fmt::format("\"_key_{}\": {},", i, i);
  text += "\"train_batch_size\": 0}";
  const Problem problem = only_problem(text);
  EXPECT_EQ(problem.key, "train_batch_size");
  EXPECT_EQ(problem.at.column, static_cast<int>(text.size()) - 1);
}

}  // namespace
}  // namespace zeroshard::config
