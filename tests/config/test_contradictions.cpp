// Values that are fine alone and wrong together; and all problems of a file at once.

#include "tests/config/config_support.h"
#include "zeroshard/base/error.h"

namespace zeroshard::config {
namespace {

TEST(Contradictions, Fp16AndBf16) {
  const Problem problem =
      only_problem("{\"fp16\": {\"enabled\": true},\n \"bf16\": {\"enabled\": true}}");
  EXPECT_EQ(line_of(problem), "2:22 error contradiction bf16.enabled");
  EXPECT_EQ(problem.value, "true");
  EXPECT_FALSE(problem.remedy.empty());
  good_config(R"({"fp16": {"enabled": true}, "bf16": {"enabled": false}})");
  good_config(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}})");
}

TEST(Contradictions, ParamDtypeAgainstTheModels) {
  const auto with = [](std::string_view precision, std::string_view dtype) {
    return kinds_of_problems(
        fmt::format(R"({{{}"data_types": {{"param_dtype": "{}"}}}})", precision, dtype));
  };
  const Lines wrong{"error contradiction data_types.param_dtype"};
  EXPECT_EQ(with("", "fp32"), Lines{});
  EXPECT_EQ(with("", "bf16"), wrong);
  EXPECT_EQ(with(R"("bf16": {"enabled": true},)", "bfloat16"), Lines{});
  EXPECT_EQ(with(R"("bf16": {"enabled": true},)", "fp16"), wrong);
  EXPECT_EQ(with(R"("fp16": {"enabled": true},)", "half"), Lines{});
  EXPECT_EQ(with(R"("fp16": {"enabled": "auto"},)", "half"), Lines{}) << "it may become fp16";
}

TEST(Contradictions, NesterovWithoutMomentum) {
  const auto sgd = [](std::string_view params) {
    return kinds_of_problems(
        fmt::format(R"({{"optimizer": {{"type": "SGD", "params": {{{}}}}}}})", params));
  };
  const Lines wrong{"error contradiction optimizer.params.nesterov"};
  EXPECT_EQ(sgd(R"("nesterov": true)"), wrong);
  EXPECT_EQ(sgd(R"("nesterov": true, "momentum": 0.9, "dampening": 0.1)"), wrong);
  EXPECT_EQ(sgd(R"("nesterov": true, "momentum": 0.9)"), Lines{});
  EXPECT_EQ(sgd(R"("nesterov": true, "momentum": "auto")"), Lines{}) << "it may become 0.9";
}

TEST(Contradictions, TotalBelowTheWarmUp) {
  const auto schedule = [](std::string_view type, std::string_view params) {
    return kinds_of_problems(
        fmt::format(R"({{"scheduler": {{"type": "{}", "params": {{{}}}}}}})", type, params));
  };
  const Lines warned{"warning contradiction scheduler.params.total_num_steps"};
  for (const char* type : {"WarmupDecayLR", "WarmupCosineLR"}) {
    EXPECT_EQ(schedule(type, R"("total_num_steps": 9, "warmup_num_steps": 10)"), warned);
    EXPECT_EQ(schedule(type, R"("total_num_steps": 10, "warmup_num_steps": 10)"), Lines{});
    EXPECT_EQ(schedule(type, R"("total_num_steps": 999)"), warned) << "the default is 1000";
    EXPECT_EQ(schedule(type, R"("total_num_steps": 9, "warmup_num_steps": "auto")"), Lines{});
    EXPECT_EQ(schedule(type, R"("total_num_steps": "auto", "warmup_num_steps": 10)"), Lines{});
  }
}

TEST(Contradictions, RequiredParametersThatAreMissing) {
  const auto missing = [](std::string_view type, std::string_view rest) {
    return kinds_of_problems(fmt::format(R"({{"scheduler": {{"type": "{}"{}}}}})", type, rest));
  };
  const Lines cycle{"error missing_key scheduler.params.cycle_min_lr",
                    "error missing_key scheduler.params.cycle_max_lr"};
  const Lines total{"error missing_key scheduler.params.total_num_steps"};
  for (const char* rest : {"", R"(, "params": {})", R"(, "params": null)"}) {
    EXPECT_EQ(missing("OneCycle", rest), cycle) << rest;
    EXPECT_EQ(missing("WarmupDecayLR", rest), total) << rest;
    EXPECT_EQ(missing("WarmupCosineLR", rest), total) << rest;
    EXPECT_EQ(missing("WarmupLR", rest), Lines{}) << rest;
  }
  EXPECT_EQ(missing("WarmupCosineLR", R"(, "params": {"total_num_steps": null})"), total);
  EXPECT_EQ(missing("WarmupCosineLR", R"(, "params": {"total_num_steps": "auto"})"), Lines{});
}

TEST(Contradictions, ASectionThatNeedsATypeHasOne) {
  for (const char* section : {R"({"params": {}})", R"({"type": null, "params": {"lr": 1}})"}) {
    EXPECT_EQ(kinds_of_problems(nested("optimizer", section)),
              (Lines{"error missing_key optimizer.type"}))
        << section;
  }
  EXPECT_EQ(kinds_of_problems(nested("optimizer.type", "7")),
            (Lines{"error wrong_type optimizer.type"}));
}

TEST(Contradictions, ParametersAreOffloadedWhereTheyAreSharded) {
  const auto at_stage = [](std::string_view stage) {
    return kinds_of_problems(fmt::format(
        R"({{"zero_optimization": {{{} "offload_param": {{"device": "cpu"}}}}}})", stage));
  };
  const Lines warned{"warning no_effect zero_optimization.offload_param.device"};
  EXPECT_EQ(at_stage(""), warned);
  EXPECT_EQ(at_stage(R"("stage": 1,)"), warned);
  EXPECT_EQ(at_stage(R"("stage": 2,)"), warned);
  EXPECT_EQ(at_stage(R"("stage": 3,)"), Lines{});
  EXPECT_EQ(at_stage(R"("stage": "auto",)"), Lines{});
}

TEST(Contradictions, ABudgetDecidesAndNotTheRatio) {
  const auto with = [](std::string_view offload) {
    return kinds_of_problems(fmt::format(R"({{"zero_optimization": {{"offload_optimizer": {{{}}}}},
                                  "zeroshard": {{"device_budget": "40GiB"}}}})",
                                         offload));
  };
  EXPECT_EQ(with(R"("device": "cpu", "ratio": 0.5)"),
            (Lines{"warning no_effect zero_optimization.offload_optimizer.ratio"}));
  EXPECT_EQ(with(R"("device": "cpu")"), Lines{});
  EXPECT_EQ(with(R"("device": "none")"), Lines{}) << "a budget alone asks for offload";
}

TEST(Contradictions, AHostBudgetIsForWhatIsOnTheHost) {
  const auto with = [](std::string_view offload) {
    return kinds_of_problems(fmt::format(R"({{"zero_optimization": {{"stage": 3, {}}},
                         "zeroshard": {{"host_budget": "40GiB"}}}})",
                                         offload));
  };
  EXPECT_EQ(with(R"("offload_optimizer": {"device": "none"})"),
            (Lines{"warning no_effect zeroshard.host_budget"}));
  EXPECT_EQ(with(R"("offload_optimizer": {"device": "cpu"})"), Lines{});
  EXPECT_EQ(with(R"("offload_param": {"device": "cpu"})"), Lines{});
  EXPECT_EQ(with(R"("offload_optimizer": {"device": "auto"})"), Lines{});
}

TEST(Contradictions, VocabularyThatIsNoMultipleOfEight) {
  EXPECT_EQ(kinds_of_problems(nested("vocabulary_size", "50257")),
            (Lines{"warning contradiction vocabulary_size"}));
  good_config(nested("vocabulary_size", "50304"));
}

// One sentence: file, line, column, key, value, what is wrong, what to do.
TEST(Contradictions, AMessageHasKeyValuePlaceAndRemedy) {
  const Problem problem = only_problem("{\n  \"fp16\": {\"hysteresis\": 0}\n}");
  const std::string line = format_problem("ds.json", problem);
  EXPECT_EQ(line.rfind("ds.json:2:26: error: ", 0), 0U) << line;
  EXPECT_NE(line.find("fp16.hysteresis = 0: "), std::string::npos) << line;
  EXPECT_NE(line.find("at least 1"), std::string::npos) << line;
  EXPECT_NE(line.find("default is 2"), std::string::npos) << line;
}

TEST(Contradictions, AMessageIsOneLineWhateverTheFileHolds) {
  for (const char* text : {R"({"log_level": "a\nb"})", R"({"a\nb": 1})", R"({"fp16": {"\r": 1}})",
                           R"({"fp16": {"enabled": "\u001b[31m"}})", "{\"a\": b\rc\n}",
                           R"({"optimizer": {"type": "x\ny"}})"}) {
    const ReadResult read = read_config(text);
    EXPECT_FALSE(read.report.problems().empty()) << text;
    for (const Problem& problem : read.report.problems()) {
      for (const char c : format_problem("f", problem)) {
        ASSERT_GE(static_cast<unsigned char>(c), 0x20) << text;
      }
    }
  }
}

constexpr const char* kTenProblems = R"({
  "train_batch_size": 30, "train_micro_batch_size_per_gpu": 4,
  gradient_clipping: -1,
  "train_batchsize": 8,
  "optimizer": {"type": "Lamb"},
  "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1}},
  "fp16": {"enabled": true, "loss_scale_window": "many"},
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 4, "cpu_offload": true},
  "fp16": {}
}
)";

TEST(Contradictions, AllProblemsAreReportedAtOnceTheErrorsLastAndEachInTheFilesOrder) {
  EXPECT_EQ(
      problems_of(kTenProblems),
      (Lines{
          "3:3 warning relaxed_syntax", "9:37 warning deprecated zero_optimization.cpu_offload",
          "2:23 error contradiction train_batch_size", "3:22 error out_of_range gradient_clipping",
          "4:3 error unknown_key train_batchsize", "5:25 error unsupported optimizer.type",
          "6:47 error missing_key scheduler.params.cycle_max_lr",
          "7:50 error wrong_type fp16.loss_scale_window", "8:23 error contradiction bf16.enabled",
          "9:34 error out_of_range zero_optimization.stage", "10:3 error duplicate_key fp16"}));
}

TEST(Contradictions, WhatIsBadIsNotStored) {
  const Config config = read_config(kTenProblems).config;
  EXPECT_EQ(config.precision.gradient_clipping, 1.0);
  EXPECT_EQ(config.zero.stage, 0);
  EXPECT_EQ(config.precision.fp16.loss_scale_window, 1000);
  EXPECT_FALSE(config.optimizer);
}

TEST(Contradictions, LoadingThrowsAllErrorsTogether) {
  const std::string path = testing::TempDir() + "zeroshard_contradictions.json";
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(kTenProblems, file);
  std::fclose(file);
  try {
    load_config(path);
    ADD_FAILURE() << "did not throw";
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    for (const char* key : {":2:23:", ":5:25:", ":10:3:", "optimizer.type", "9 problems"}) {
      EXPECT_NE(what.find(key), std::string::npos) << key << " in " << what;
    }
    EXPECT_EQ(what.find("deprecated"), std::string::npos) << "warnings are no reason to throw";
  }
  std::remove(path.c_str());
}

TEST(Contradictions, AFileThatIsNotThereThrows) {
  EXPECT_THROW(read_config_file("/nonexistent/ds_config.json"), ConfigError);
  EXPECT_THROW(read_config_file(testing::TempDir()), ConfigError) << "a folder";
}

}  // namespace
}  // namespace zeroshard::config
