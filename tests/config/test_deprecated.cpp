// Old spellings: read as what replaced them, with a warning; beside their successor, an error.

#include "tests/config/config_support.h"

namespace zeroshard::config {
namespace {

TEST(Deprecated, CpuOffloadMovesTheOptimizerStates) {
  const ReadResult read =
      read_config("{\"zero_optimization\":\n {\"stage\": 2, \"cpu_offload\": true}}");
  ASSERT_EQ(read.report.problems().size(), 1U);
  const Problem& problem = read.report.problems().front();
  EXPECT_EQ(line_of(problem), "2:15 warning deprecated zero_optimization.cpu_offload");
  EXPECT_NE(problem.remedy.find("offload_optimizer"), std::string::npos) << problem.remedy;
  EXPECT_EQ(read.config.offload.optimizer, Tier::host);
}

TEST(Deprecated, CpuOffloadFalseMovesNothing) {
  const ReadResult read = read_config(nested("zero_optimization.cpu_offload", "false"));
  ASSERT_EQ(read.report.count(Severity::warning), 1U);
  EXPECT_FALSE(read.report.has_errors());
  EXPECT_EQ(read.config.offload.optimizer, Tier::device);
  const std::string& remedy = read.report.problems().front().remedy;
  EXPECT_EQ(remedy, "leave it out, which means the same") << "no advice that switches offload on";
}

TEST(Deprecated, CpuOffloadParamMovesTheParameters) {
  const char* text = R"({"zero_optimization": {"stage": 3, "cpu_offload_param": true}})";
  EXPECT_EQ(kinds_of_problems(text),
            (Lines{"warning deprecated zero_optimization.cpu_offload_param"}));
  EXPECT_EQ(read_config(text).config.offload.parameters, Tier::host);
}

TEST(Deprecated, PinMemoryOnlyWarns) {
  EXPECT_EQ(kinds_of_problems(nested("zero_optimization.cpu_offload_use_pin_memory", "true")),
            (Lines{"warning deprecated zero_optimization.cpu_offload_use_pin_memory"}));
}

TEST(Deprecated, Bfloat16IsBf16) {
  const char* text = R"({"bfloat16": {"enabled": true, "check_grad_overflow": false}})";
  EXPECT_EQ(problems_of(text), (Lines{"1:2 warning deprecated bfloat16"}));
  const ReadResult read = read_config(text);
  EXPECT_TRUE(read.config.precision.bf16.enabled);
  EXPECT_FALSE(read.config.precision.bf16.check_grad_overflow);
  EXPECT_EQ(explained(read, "bf16.enabled").source, Source::file);
}

TEST(Deprecated, ProblemsKeepTheSpellingOfTheFile) {
  EXPECT_EQ(kinds_of_problems(R"({"bfloat16": {"enabled": 5}})"),
            (Lines{"warning deprecated bfloat16", "error wrong_type bfloat16.enabled"}));
  EXPECT_EQ(kinds_of_problems(R"({"fp16": {"enabled": true}, "bfloat16": {"enabled": true}})"),
            (Lines{"warning deprecated bfloat16", "error contradiction bfloat16.enabled"}));
}

TEST(Deprecated, BareBooleanMeansStageOneOrZero) {
  const ReadResult on = read_config(R"({"zero_optimization": true})");
  ASSERT_EQ(on.report.problems().size(), 1U);
  EXPECT_EQ(line_of(on.report.problems()[0]), "1:2 warning deprecated zero_optimization");
  EXPECT_NE(on.report.problems()[0].remedy.find("\"stage\": 1"), std::string::npos);
  EXPECT_EQ(on.config.zero.stage, 1);
  EXPECT_EQ(explained(on, "zero_optimization.stage").value, "1");
  const ReadResult off = read_config(R"({"zero_optimization": false})");
  EXPECT_EQ(off.report.count(Severity::warning), 1U);
  EXPECT_EQ(off.config.zero.stage, 0);
}

TEST(Deprecated, OnlyZeroOptimizationMayBeABoolean) {
  EXPECT_EQ(kinds_of_problems(R"({"fp16": true})"), (Lines{"error wrong_type fp16"}));
  EXPECT_EQ(kinds_of_problems(R"({"zero_optimization": 2})"),
            (Lines{"error wrong_type zero_optimization"}));
  EXPECT_EQ(kinds_of_problems(R"({"optimizer": "Adam"})"), (Lines{"error wrong_type optimizer"}));
}

TEST(Deprecated, GatherFp16Is16Bit) {
  const char* path = "zero_optimization.stage3_gather_fp16_weights_on_model_save";
  const Problem problem = only_problem(nested(path, "true"));
  EXPECT_EQ(problem.code, Code::deprecated);
  EXPECT_NE(problem.remedy.find("stage3_gather_16bit_weights_on_model_save"), std::string::npos);
  EXPECT_TRUE(read_config(nested(path, "true")).config.zero.gather_16bit_weights_on_model_save);
}

TEST(Deprecated, OldAndNewTogetherAreAnErrorAtTheOld) {
  const auto zero = [](std::string_view members) {
    return kinds_of_problems(
        fmt::format(R"({{"zero_optimization": {{"stage": 3, {}}}}})", members));
  };
  EXPECT_EQ(zero(R"("cpu_offload": true, "offload_optimizer": {"device": "cpu"})"),
            (Lines{"error contradiction zero_optimization.cpu_offload"}));
  EXPECT_EQ(zero(R"("offload_param": {}, "cpu_offload_param": false)"),
            (Lines{"error contradiction zero_optimization.cpu_offload_param"}));
  EXPECT_EQ(zero(R"("stage3_gather_16bit_weights_on_model_save": true,
                    "stage3_gather_fp16_weights_on_model_save": true)"),
            (Lines{"error contradiction "
                   "zero_optimization.stage3_gather_fp16_weights_on_model_save"}));
  EXPECT_EQ(zero(R"("stage3_gather_fp16_weights_on_model_save": true,
                    "gather_16bit_weights_on_model_save": true)"),
            (Lines{"error contradiction "
                   "zero_optimization.stage3_gather_fp16_weights_on_model_save"}));
}

TEST(Deprecated, TheNewSectionWinsOverTheOld) {
  for (const char* text : {R"({"bf16": {"enabled": true}, "bfloat16": {"enabled": false}})",
                           R"({"bfloat16": {"enabled": false}, "bf16": {"enabled": true}})"}) {
    const ReadResult read = read_config(text);
    EXPECT_EQ(kinds_of_problems(text), (Lines{"warning deprecated bfloat16"}));
    EXPECT_TRUE(read.config.precision.bf16.enabled) << "bf16 wins: " << text;
  }
}

TEST(Deprecated, BothSpellingsOfAnAliasAreAnError) {
  for (const char* name :
       {"prefetch_bucket_size", "param_persistence_threshold", "model_persistence_threshold",
        "max_live_parameters", "max_reuse_distance", "module_granularity_threshold"}) {
    const std::string text =
        fmt::format(R"({{"zero_optimization": {{"{}": 7, "stage3_{}": 7}}}})", name, name);
    EXPECT_TRUE(read_config(text).report.has_errors()) << name;
  }
}

TEST(Deprecated, AnAliasAloneIsTheKeyItself) {
  const Config config = good_config(
      R"({"zero_optimization": {"prefetch_bucket_size": 11, "param_persistence_threshold": 12,
                                "model_persistence_threshold": 13, "max_live_parameters": 14,
                                "gather_16bit_weights_on_model_save": true}})");
  EXPECT_EQ(config.zero.prefetch_numel, 11);
  EXPECT_EQ(config.zero.persistence_numel, 12);
  EXPECT_EQ(config.zero.model_persistence_numel, 13);
  EXPECT_EQ(config.zero.max_live_numel, 14);
  EXPECT_TRUE(config.zero.gather_16bit_weights_on_model_save);
}

}  // namespace
}  // namespace zeroshard::config
