// `zeroshard plan` end to end: the paper's table on the terminal.
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/config/seed_files.h"
#include "tests/support/run_program.h"

namespace zeroshard::test {
namespace {

Finished plan(const std::string& arguments) {
  return run_program(ZEROSHARD_BINARY, "plan " + arguments);
}

// The cells of the table's row for a stage.
std::string row_of(const std::string& text, int stage) {
  const std::string start = "\n    " + std::to_string(stage) + "  ";
  const std::size_t at = text.find(start);
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

TEST(PlanVerb, PrintsTheStagesAndItsAssumption) {
  const Finished finished = plan("--params 7.5e9 --world-size 64");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const char* states[] = {"105 GB", "31.2 GB", "16.4 GB", "1.64 GB"};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_NE(row_of(finished.out, stage).find(states[stage]), std::string::npos) << finished.out;
  }
  EXPECT_NE(finished.out.find("assumed: no --config: 16-bit"), std::string::npos) << finished.out;
}

TEST(PlanVerb, JsonHasExactBytes) {
  const Finished finished = plan("--params 64M --world-size 2 --units 1 --json");
  ASSERT_EQ(finished.exit_code, 0);
  rapidjson::Document document;
  document.Parse(finished.out.c_str());
  ASSERT_FALSE(document.HasParseError()) << finished.out;
  ASSERT_EQ(document["stages"].Size(), 4U);
  const auto& device = document["stages"][2]["device_bytes"];
  EXPECT_EQ(device["parameters"].GetInt64(), 128'000'000);
  EXPECT_EQ(device["gradients"].GetInt64(), 64'000'000);
  EXPECT_EQ(device["master"].GetInt64(), 64'000'000);
  EXPECT_EQ(device["moments"].GetInt64(), 256'000'000);
  EXPECT_EQ(device["states"].GetInt64(), 512'000'000);
}

TEST(PlanVerb, TheConfigDecidesPrecisionStageAndTiers) {
  const TemporaryFile config(
      R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
         "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}})");
  const Finished finished = plan("--params 1e9 --world-size 4 --config " + config.path());
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_NE(finished.out.find("> 3 "), std::string::npos) << finished.out;
  // Stage 3: (2 + 2 + 2 + 8) bytes a parameter over 4 ranks, all of them on the host.
  const std::size_t host = finished.out.find("Bytes per rank on the host");
  ASSERT_NE(host, std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("3.5 GB", host), std::string::npos) << finished.out;
  EXPECT_EQ(finished.err, "");
}

// Those that ask for offload have the optimizer states of their stage on the host, and no others.
TEST(PlanVerb, TheSeedFilesArePlannedAsTheyStand) {
  for (const auto& [name, text] : config::kSeedFiles) {
    SCOPED_TRACE(name);
    const TemporaryFile file(text);
    const Finished finished = plan("--params 1e9 --world-size 4 --json --config " + file.path());
    ASSERT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    rapidjson::Document document;
    document.Parse(finished.out.c_str());
    const auto& stage = document["stages"][document["config_stage"].GetInt()];
    const bool offloads =
        std::string_view(text).find("offload_optimizer") != std::string_view::npos;
    const char* states = offloads ? "host_bytes" : "device_bytes";
    const char* others = offloads ? "device_bytes" : "host_bytes";
    EXPECT_GE(stage[states]["moments"].GetInt64(), 2'000'000'000);
    EXPECT_EQ(stage[others]["moments"].GetInt64(), 0);
    const bool both = std::string_view(text).find("offload_param") != std::string_view::npos;
    EXPECT_EQ(stage["host_bytes"]["parameters"].GetInt64() > 0, both);
  }
}

TEST(PlanVerb, ABudgetSaysWhatStaysOnTheDevice) {
  const auto with_budget = [](const std::string& budget) {
    const TemporaryFile config(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
        "zeroshard": {"device_budget": ")" +
                               budget + R"("}})");
    const Finished finished =
        plan("--params 3200M --units 32 --world-size 1 --device cuda --config " + config.path());
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.out;
  };
  // 6.4 GB of parameters, 0.2 of gradients that pass, 1.2 for each unit that stays.
  const std::string half = with_budget("26GB");
  EXPECT_NE(
      half.find("stage 2: the first 16 of 32 units keep their optimizer states on the device"),
      std::string::npos)
      << half;
  EXPECT_NE(half.find("Bytes per rank on the host"), std::string::npos) << half;
  const std::string small = with_budget("5GB");
  EXPECT_NE(small.find("stage 2 does not fit: zeroshard.device_budget is less than this model "
                       "needs on the device"),
            std::string::npos)
      << small;
  EXPECT_EQ(with_budget("60GB").find("on the host"), std::string::npos);
}

// The words of check and plan, and the bytes of a file that says what train would choose.
TEST(PlanVerb, BucketsAreThoseThatTrainChooses) {
  const TemporaryFile open(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
  const TemporaryFile said(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2,
      "overlap_comm": false, "reduce_bucket_size": 1250000, "stage3_prefetch_bucket_size": 0}})");
  const std::string ask = "--params 10M --world-size 4 --device cpu --json --config ";
  const auto stages = [&](const TemporaryFile& file) {
    const Finished finished = plan(ask + file.path());
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.out.substr(finished.out.find("\"stages\""));
  };
  EXPECT_EQ(stages(open), stages(said));
  const Finished text = plan("--params 10M --world-size 4 --device cpu --config " + open.path());
  EXPECT_NE(text.out.find("assumed: no reduce_bucket_size: 1250000"), std::string::npos)
      << text.out;
}

TEST(PlanVerb, AccumulationCountsWhetherGivenOrDerived) {
  const std::string sizes = R"("train_batch_size": 16, "train_micro_batch_size_per_gpu": 2)";
  const std::string rest = R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 2})";
  const TemporaryFile derived("{" + sizes + ", " + rest + "}");
  const TemporaryFile given("{" + sizes + R"(, "gradient_accumulation_steps": 4, )" + rest + "}");
  const std::string ask = "--params 10M --world-size 2 --json --config ";
  EXPECT_EQ(plan(ask + derived.path()).out, plan(ask + given.path()).out);
}

TEST(PlanVerb, NoParametersAreRefused) {
  const Finished finished = plan("--params 0");
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_NE(finished.err.find("a model has parameters"), std::string::npos) << finished.err;
}

TEST(PlanVerb, RanksComeFromTheBatchSizesWhereNobodySays) {
  const TemporaryFile config(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,
                                 "gradient_accumulation_steps": 2})");
  const Finished finished = plan("--params 1e9 --config " + config.path());
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_NE(finished.out.find("no --world-size: 8 ranks, from the batch sizes"), std::string::npos)
      << finished.out;
  EXPECT_EQ(plan("--params 1e9 --world-size 3 --config " + config.path()).exit_code, 2);
}

TEST(PlanVerb, ABadConfigIsRefused) {
  const TemporaryFile config(R"({"zero_optimization": {"stage": 9}})");
  const Finished finished = plan("--params 1e9 --config " + config.path());
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("zero_optimization.stage = 9"), std::string::npos) << finished.err;
}

TEST(PlanVerb, SizesBeyondCountingAreRefusedInASentence) {
  const TemporaryFile config(R"({"train_micro_batch_size_per_gpu": 1,
                                 "gradient_accumulation_steps": 2147483647})");
  for (const std::string& arguments : {std::string("--params 9e18 --world-size 2"),
                                       "--params 1000T --world-size 2 --config " + config.path()}) {
    const Finished finished = plan(arguments);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_EQ(finished.out, "");
    EXPECT_NE(finished.err.find("--params is out of range"), std::string::npos) << finished.err;
  }
}

}  // namespace
}  // namespace zeroshard::test
