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

TEST(ReferenceDetails, LossScaleBoundsMatterOnlyToADynamicScale) {
  for (const char* key : {"loss_scale_window", "min_loss_scale"}) {
    const auto with = [&](const char* rest) {
      return kinds_of_problems(fmt::format(R"({{"fp16": {{"{}": 0, {}}}}})", key, rest));
    };
    EXPECT_TRUE(with(R"("enabled": false)").empty());
    EXPECT_TRUE(with(R"("enabled": true, "loss_scale": 128)").empty());
    EXPECT_EQ(with(R"("enabled": true)"), (Lines{fmt::format("error out_of_range fp16.{}", key)}));
  }
}

TEST(ReferenceDetails, ADotInAKeyLeadsNowhere) {
  for (const char* text : {R"({"zero_optimization.stage": 3})", R"({"optimizer.type": "Adam"})",
                           R"({"scheduler.type": "OneCycle"})"}) {
    const ReadResult read = read_config(text);
    EXPECT_EQ(read.report.problems().size(), 1U) << text;
    EXPECT_EQ(read.config.zero.stage, 0);
    EXPECT_TRUE(read.provenance.empty()) << text;
    EXPECT_FALSE(explain(read, std::nullopt).empty());
  }
  EXPECT_EQ(kinds_of_problems(R"({"zero_optimization": {"offload_optimizer.device": "cpu"}})"),
            (Lines{"error unknown_key zero_optimization.offload_optimizer.device"}));
}

TEST(ReferenceDetails, ASectionIsNotAuto) {
  for (const char* name : {"fp16", "zero_optimization", "optimizer", "scheduler", "checkpoint"}) {
    EXPECT_EQ(kinds_of_problems(fmt::format(R"({{"{}": "auto"}})", name)),
              (Lines{fmt::format("error wrong_type {}", name)}));
  }
  // DeepSpeed drops it where it checks types.
  EXPECT_TRUE(problems_of(nested("zero_optimization.offload_param", "\"auto\"")).empty());
}

TEST(ReferenceDetails, NearMissesAreErrorsEvenWhereNobodyLooksCloser) {
  for (const char* path : {"elasticity.enable", "compile.deepcompil", "amp.enabeld"}) {
    EXPECT_EQ(kinds_of_problems(nested(path, "true")),
              (Lines{fmt::format("error unknown_key {}", path)}));
  }
  EXPECT_TRUE(problems_of(nested("amp.opt_level", "\"O1\"")).empty());
}

TEST(ReferenceDetails, TorchAdamsDecayIsExplained) {
  const ReadResult read =
      read_config(R"({"optimizer": {"type": "AdamW", "params": {"torch_adam": true}}})");
  const ExplainedKey row = explained(read, "optimizer.params.weight_decay");
  EXPECT_EQ(row.value, "0.01");
  EXPECT_EQ(row.source, Source::derived);
}

TEST(ReferenceDetails, RecheckSeesWhatResolvingBroughtAbout) {
  ReadResult read = read_config(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}})");
  resolve_auto(read, "fp16.enabled", "true");
  EXPECT_FALSE(recheck(read).has_errors());
  resolve_auto(read, "bf16.enabled", "true");
  EXPECT_TRUE(recheck(read).has_errors());
}

TEST(ReferenceDetails, LongAndEmptyKeysStayReadable) {
  EXPECT_LT(only_problem("{\"" + std::string(500'000, 'k') + "\": 1}").key.size(), 100U);
  EXPECT_EQ(only_problem(R"({"": 4})").key, "\"\"");
}

// Nearly a megabyte of keys on one line: each character is looked at once, so this takes a blink.
TEST(ReferenceDetails, ManyKeysAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 60'000; ++i) text += fmt::format("\"_{}\":{},", i, i);
  text += "\"train_batch_size\": 0}";
  const Problem problem = only_problem(text);
  EXPECT_EQ(problem.key, "train_batch_size");
  EXPECT_EQ(problem.at.column, static_cast<int>(text.size()) - 1);
}

}  // namespace
}  // namespace zeroshard::config
