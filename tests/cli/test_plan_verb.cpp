// `zeroshard plan` end to end: the paper's table on the terminal.
#include <string>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

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

TEST(PlanVerb, PrintsThePapersTableAndItsAssumption) {
  const Finished finished = plan("--params 7.5e9 --world-size 64");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const char* states[] = {"120 GB", "31.4 GB", "16.6 GB", "1.88 GB"};
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
  EXPECT_EQ(device["master"].GetInt64(), 128'000'000);
  EXPECT_EQ(device["moments"].GetInt64(), 256'000'000);
  EXPECT_EQ(device["states"].GetInt64(), 576'000'000);
}

TEST(PlanVerb, TheConfigDecidesPrecisionOffloadAndStage) {
  const TemporaryFile config(
      R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
         "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}})");
  const Finished finished = plan("--params 1e9 --world-size 4 --config " + config.path());
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_NE(finished.out.find("Bytes per rank on the host"), std::string::npos);
  EXPECT_NE(finished.out.find("> 3 "), std::string::npos) << finished.out;
  // Stage 3 with both offloaded: (12 + 2 + 2) bytes a parameter over 4 ranks on the host.
  EXPECT_NE(finished.out.find("4 GB"), std::string::npos) << finished.out;
}

TEST(PlanVerb, ABadConfigIsRefused) {
  const TemporaryFile config(R"({"zero_optimization": {"stage": 9}})");
  const Finished finished = plan("--params 1e9 --config " + config.path());
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("zero_optimization.stage = 9"), std::string::npos) << finished.err;
}

TEST(PlanVerb, HugeModelsAreRefusedInASentence) {
  const Finished finished = plan("--params 9e18 --world-size 2");
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(finished.err.find("bug in ZeroShard"), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace zeroshard::test
