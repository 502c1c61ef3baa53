// Keys nobody knows: an error where they are probably a mistake, else a warning, never silence.

#include "tests/config/config_support.h"

namespace zeroshard::config {
namespace {

TEST(UnknownKeys, NearMissIsAnErrorThatNamesTheKnownKey) {
  const std::vector<std::pair<std::string, std::string>> misspelt{
      {"train_batchsize", "train_batch_size"},
      {"gradient_cliping", "gradient_clipping"},
      {"gradiant_accumulation_steps", "gradient_accumulation_steps"},
      {"zero_optimisation", "zero_optimization"},
      {"optimiser", "optimizer"},
      {"Steps_Per_Print", "steps_per_print"},
      {"fp61", "fp16"},
  };
  for (const auto& [wrong, right] : misspelt) {
    const Problem problem = only_problem(nested(wrong, "1"));
    EXPECT_EQ(line_of(problem), "1:2 error unknown_key " + wrong);
    EXPECT_EQ(problem.remedy, "did you mean \"" + right + "\"?");
  }
}

TEST(UnknownKeys, TheWordsInAnotherOrderAreANearMiss) {
  const Problem problem = only_problem(nested("zero_optimization.comm_overlap", "true"));
  EXPECT_EQ(line_of(problem), "1:24 error unknown_key zero_optimization.comm_overlap");
  EXPECT_EQ(problem.remedy, "did you mean \"overlap_comm\"?");
}

TEST(UnknownKeys, SomeOfTheWordsAreAHint) {
  const Problem problem = only_problem(nested("micro_batch_per_gpu", "3"));
  EXPECT_EQ(problem.severity, Severity::warning);
  EXPECT_EQ(problem.remedy, "did you mean \"train_micro_batch_size_per_gpu\"?");
  EXPECT_EQ(only_problem(nested("checkpoint.checkpoint_tag_validation", "true")).remedy,
            "did you mean \"tag_validation\"?");
}

TEST(UnknownKeys, AreNotSentWhereTheyAreRefusedAsWell) {
  EXPECT_EQ(only_problem(nested("fp16.fp16", "true")).remedy, "write \"enabled\": true");
  EXPECT_EQ(only_problem(nested("fp16.scheduler", "3")).remedy,
            "remove it, or begin it with _ to keep it as a comment");
  EXPECT_EQ(only_problem(nested("fp16.scheduler", "{}")).remedy, "it belongs at the top level");
}

TEST(UnknownKeys, OfOtherToolsAreCalledTheirs) {
  EXPECT_NE(only_problem(nested("zero3_init_flag", "true")).remedy.find("accelerate"),
            std::string::npos);
}

TEST(UnknownKeys, NearMissIsSoughtInTheSameSectionOnly) {
  EXPECT_EQ(only_problem(nested("checkpoint.tag_validations", "1")).remedy,
            "did you mean \"tag_validation\"?");
  EXPECT_EQ(only_problem(nested("fp16.enable", "true")).remedy, "did you mean \"enabled\"?");
  EXPECT_EQ(line_of(only_problem(nested("tag_validations", "1"))),
            "1:2 warning unknown_key tag_validations");
}

TEST(UnknownKeys, AreErrorsInTypedSections) {
  for (const char* section :
       {"zero_optimization", "zero_optimization.offload_param",
        "zero_optimization.offload_optimizer", "zero_optimization.leaf_module", "fp16", "bf16",
        "tensorboard", "wandb", "csv_monitor", "comet", "comms_logger", "timers.throughput",
        "tensor_parallel", "compile", "hybrid_engine", "zeroshard"}) {
    const std::string path = std::string(section) + ".quux_corge_grault";
    const Lines lines = kinds_of_problems(nested(path, "1"));
    ASSERT_FALSE(lines.empty()) << section;
    EXPECT_EQ(lines.back(), "error unknown_key " + path);
  }
}

TEST(UnknownKeys, AreErrorsAmongParameters) {
  EXPECT_EQ(kinds_of_problems(R"({"optimizer": {"type": "AdamW", "params": {"momentum": 0.9}}})"),
            (Lines{"error unknown_key optimizer.params.momentum"}));
  EXPECT_EQ(kinds_of_problems(R"({"optimizer": {"type": "SGD", "params": {"betas": [0, 0]}}})"),
            (Lines{"error unknown_key optimizer.params.betas"}));
  EXPECT_EQ(
      kinds_of_problems(R"({"scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 9}}})"),
      (Lines{"error unknown_key scheduler.params.total_num_steps"}));
}

TEST(UnknownKeys, ParametersAreCheckedByTypeWhereverTypeStands) {
  EXPECT_EQ(kinds_of_problems(R"({"optimizer": {"params": {"momentum": 0.9}, "type": "AdamW"}})"),
            (Lines{"error unknown_key optimizer.params.momentum"}));
  EXPECT_TRUE(
      problems_of(R"({"optimizer": {"params": {"momentum": 0.9}, "type": "sgd"}})").empty());
}

TEST(UnknownKeys, AreWarningsElsewhere) {
  for (const char* path : {"quux_corge", "optimizer.quux_corge", "checkpoint.quux_corge",
                           "activation_checkpointing.quux_corge", "flops_profiler.quux_corge",
                           "data_types.quux_corge", "timers.quux_corge"}) {
    const Lines lines = kinds_of_problems(nested(path, "1"));
    ASSERT_FALSE(lines.empty()) << path;
    EXPECT_EQ(lines.front(), std::string("warning unknown_key ") + path);
  }
}

TEST(UnknownKeys, AnUnknownSectionIsOneWarningWhateverItHolds) {
  EXPECT_EQ(kinds_of_problems(R"({"moe_things": {"fp16": 1, "a": {"b": [{"c": 2}]}}})"),
            (Lines{"warning unknown_key moe_things"}));
}

TEST(UnknownKeys, AreNobodysBusinessInSectionsOfAbsentFeatures) {
  for (const char* section :
       {"autotuning", "amp", "curriculum_learning", "data_efficiency", "elasticity", "nebula"}) {
    EXPECT_TRUE(problems_of(nested(std::string(section) + ".quux_corge", "1")).empty()) << section;
  }
}

TEST(UnknownKeys, BehindAnUnderscoreAreComments) {
  EXPECT_TRUE(problems_of(R"({"_comment": "x", "_": {"fp16": 1}, "fp16": {"_why": [1], "_": 2},
                              "optimizer": {"_a": 1, "type": "Adam", "params": {"_lr": 1}},
                              "zero_optimization": {"_comment": 1,
                                                    "offload_param": {"_comment": 2}}})",
                          {.strict = true})
                  .empty());
}

TEST(UnknownKeys, AreErrorsWhenStrict) {
  const char* text = R"({"moe_things": 1, "checkpoint": {"quux_corge": 1}})";
  EXPECT_EQ(kinds_of_problems(text),
            (Lines{"warning unknown_key moe_things", "warning unknown_key checkpoint.quux_corge"}));
  EXPECT_EQ(kinds_of_problems(text, {.strict = true}),
            (Lines{"error unknown_key moe_things", "error unknown_key checkpoint.quux_corge"}));
}

TEST(UnknownKeys, StrictLeavesOtherWarningsAlone) {
  for (const char* text : {R"({"zero_optimization": {"sub_group_size": 1e9}})",
                           R"({"bfloat16": {"enabled": true}})", "# c\n{}"}) {
    EXPECT_FALSE(problems_of(text).empty());
    EXPECT_EQ(problems_of(text), problems_of(text, {.strict = true})) << text;
  }
}

TEST(UnknownKeys, MisplacedOnesAreToldWhereTheyBelong) {
  const auto remedy = [](std::string_view path, std::string_view value) {
    return only_problem(nested(path, value)).remedy;
  };
  EXPECT_EQ(remedy("stage3_gather_16bit_weights_on_model_save", "true"),
            "it belongs in \"zero_optimization\"");
  EXPECT_EQ(remedy("hysteresis", "2"), "it belongs in \"fp16\"");
  EXPECT_EQ(remedy("zero_optimization.train_batch_size", "8"), "it belongs at the top level");
  EXPECT_EQ(remedy("fp16.gradient_clipping", "1"), "it belongs at the top level");
  EXPECT_EQ(remedy("offload_optimizer", "{}"), "it belongs in \"zero_optimization\"");
  EXPECT_EQ(remedy("lr_scheduler", "{}"), "use scheduler");
}

TEST(UnknownKeys, MaxGradNormIsToldItsOtherName) {
  const Problem inside =
      only_problem(R"({"optimizer": {"type": "Adam", "params": {"max_grad_norm": 1.0}}})");
  EXPECT_EQ(inside.severity, Severity::error);
  EXPECT_EQ(inside.key, "optimizer.params.max_grad_norm");
  EXPECT_NE(inside.remedy.find("gradient_clipping"), std::string::npos);
  const Problem outside = only_problem(R"({"max_grad_norm": 1.0})");
  EXPECT_EQ(outside.severity, Severity::warning);
  EXPECT_NE(outside.remedy.find("gradient_clipping"), std::string::npos);
}

}  // namespace
}  // namespace zeroshard::config
