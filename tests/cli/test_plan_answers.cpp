// What `zeroshard plan` makes of what it is asked: the configuration as it stands, batch sizes,
// files to write, rates and their sources, and limits.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/cli/plan_answers.h"
#include "tests/support/temporary_folder.h"

namespace zeroshard::test {
namespace {

constexpr const char* kParametersAlone = R"({"bf16": {"enabled": true}, "zero_optimization":
    {"stage": 3, "offload_param": {"device": "cpu"}}})";

// Parameters alone on the host is no step of the tree.
TEST(PlanAnswers, AConfigurationBesideTheTreeIsPlannedAsItStands) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "use.json").string();
  const TemporaryFile config(kParametersAlone);
  const std::string ask = "--params 1e9 --layers 1 --world-size 4 --device cuda ";
  const auto document = plan_json(ask + "--config " + config.path() + " --write " + file);
  EXPECT_STREQ(document["chosen"].GetString(), "stage 3 + offload_param");
  const auto& planned = variant(document, "stage 3 + offload_param");
  EXPECT_EQ(planned["host_bytes"]["parameters"].GetInt64(), 500'000'000);
  EXPECT_EQ(planned["device_bytes"]["moments"].GetInt64(), 2'000'000'000);
  const std::string written = text_of(file);
  EXPECT_NE(written.find("\"stage\": 3"), std::string::npos) << written;
  EXPECT_NE(written.find("\"offload_param\""), std::string::npos) << written;
  const Finished compared = plan(ask + "--compare " + config.path() + " " + config.path());
  EXPECT_TRUE(says(compared, " 3 +param ")) << compared.out;
}

struct BatchCase {
  const char* config;
  const char* arguments;
  std::int64_t micro_batch;  // 0: refused
  std::int64_t micro_steps;
};

constexpr BatchCase kBatches[] = {
    {R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2})", "", 2, 4},
    {R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2})", "--micro-batch 8", 8, 1},
    {R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2})", "--micro-batch 5", 0, 0},
    {R"({"train_batch_size": 16, "gradient_accumulation_steps": 2})", "--micro-batch 4", 4, 2},
    {R"({"train_batch_size": 16, "gradient_accumulation_steps": 2})", "--micro-batch 8", 0, 0},
    {R"({"gradient_accumulation_steps": 2})", "--micro-batch 8", 8, 2},
    {R"({})", "", 1, 1},
};

TEST(PlanAnswers, AMicroBatchSettlesTheOtherBatchSizes) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "use.json").string();
  for (const BatchCase& batch : kBatches) {
    SCOPED_TRACE(std::string(batch.config) + " " + batch.arguments);
    const TemporaryFile config(batch.config);
    const std::string ask = "--params 10M --world-size 2 --device cuda --config " + config.path() +
                            " --write " + file + " " + batch.arguments;
    if (batch.micro_batch == 0) {
      const Finished refused = plan(ask);
      EXPECT_EQ(refused.exit_code, 2);
      EXPECT_NE(refused.err.find("--micro-batch does not fit"), std::string::npos) << refused.err;
      continue;
    }
    const auto document = plan_json(ask);
    EXPECT_EQ(document["micro_batch"].GetInt64(), batch.micro_batch);
    EXPECT_EQ(document["micro_steps"].GetInt64(), batch.micro_steps);
    const std::string size = std::to_string(batch.micro_batch);
    EXPECT_NE(text_of(file).find("\"train_micro_batch_size_per_gpu\": " + size), std::string::npos)
        << text_of(file);
  }
}

TEST(PlanAnswers, OldSpellingsOfOffloadDoNotStayInWhatIsWritten) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "use.json").string();
  const TemporaryFile config(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2,
      "cpu_offload": true, "cpu_offload_use_pin_memory": true, "overlap_comm": true}})");
  const std::string ask = "--params 1e9 --world-size 4 --whole-masters --config " + config.path() +
                          " --write " + file + " --device-memory ";
  ASSERT_EQ(plan(ask + "H100").exit_code, 0);
  const std::string written = text_of(file);
  EXPECT_EQ(written.find("offload"), std::string::npos) << "it fits without: " << written;
  EXPECT_NE(written.find("\"overlap_comm\": true"), std::string::npos) << written;
  EXPECT_NE(written.find("\"halved_masters\": false"), std::string::npos) << written;
  ASSERT_EQ(plan(ask + "4GiB").exit_code, 0);
  const std::string offloaded = text_of(file);
  EXPECT_EQ(offloaded.find("cpu_offload"), std::string::npos) << offloaded;
  EXPECT_NE(offloaded.find("\"device\": \"cpu\""), std::string::npos) << offloaded;
}

TEST(PlanAnswers, WhatDoesNotFitIsNotWritten) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "use.json").string();
  const std::string ask = "--params 100e9 --device-memory 1GiB";
  const Finished refused = plan(ask + " --write " + file);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("nothing fits"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(file));
  const Finished shown = plan(ask);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_FALSE(says(shown, "The configuration to use")) << shown.out;
  EXPECT_FALSE(plan_json(ask).HasMember("config_to_use"));
}

TEST(PlanAnswers, ContradictionsAreRefused) {
  const TemporaryFile config(kParametersAlone);
  const std::string compare = "--params 1e9 --compare " + config.path() + " ";
  for (const char* writes : {"--svg a.svg", "--html a.html", "--write a.json"}) {
    const Finished refused = plan(compare + writes);
    EXPECT_EQ(refused.exit_code, 2) << writes;
    EXPECT_NE(refused.err.find("--compare writes no files"), std::string::npos) << refused.err;
  }
  const Finished layers = plan("--model gpt: --layers 3");
  EXPECT_EQ(layers.exit_code, 2);
  EXPECT_NE(layers.err.find("--layers is for --params"), std::string::npos) << layers.err;
}

std::string source(const rapidjson::Document& document, const char* rate) {
  return document["rates"].HasMember(rate) ? document["rates"][rate]["source"].GetString() : "none";
}

TEST(PlanAnswers, EachRateSaysWhereItIsFrom) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "machine.json").string();
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  std::ofstream(file) << R"({"version": 2, "measurements": [{"host": ")" << name
                      << R"(", "date": "2026-11-18", "ranks": 2, "threads": 1,
                             "product_flops_32": 1e11, "near_bytes": 2e9}]})";
  const std::string ask = "plan --model gpt:layers=2 --device cpu --world-size 2 ";
  const auto ask_json = [&](const std::string& more) {
    const Finished finished =
        run_program("env", "ZEROSHARD_CALIBRATION=" + file + " " + ZEROSHARD_BINARY + " " + ask +
                               more + " --json");
    rapidjson::Document document;
    document.Parse(finished.out.c_str());
    EXPECT_FALSE(document.HasParseError()) << finished.out << finished.err;
    return document;
  };
  const auto measured = ask_json("");
  EXPECT_EQ(source(measured, "product_flops_32"), "measured");
  EXPECT_EQ(source(measured, "near_bytes"), "measured");
  EXPECT_EQ(source(measured, "device_bytes"), "assumed");
  EXPECT_EQ(source(measured, "far_bytes"), "none") << "nothing travels between hosts";
  EXPECT_TRUE(measured["rates_measured"].GetBool());
  const auto given = ask_json("--bandwidth 3GB");
  EXPECT_EQ(source(given, "near_bytes"), "given");
  EXPECT_EQ(given["rates"]["near_bytes"]["value"].GetDouble(), 3e9);
}

// Eight cards of 40 GB/s, or one.
TEST(PlanAnswers, HostsSendThroughTheirCards) {
  const std::string ask =
      "--model gpt:layers=4,hidden=1024,heads=16,seq=1024,vocab=32000 --world-size 64 "
      "--device-memory H100 ";
  const auto bandwidth = [&](const std::string& more) {
    return plan_json(ask + more)["collective"]["bytes_per_second"].GetDouble();
  };
  EXPECT_DOUBLE_EQ(bandwidth(""), 320e9);
  EXPECT_DOUBLE_EQ(bandwidth("--nics-per-node 1"), 40e9);
  EXPECT_DOUBLE_EQ(bandwidth("--ranks-per-node 4"), 160e9);
  EXPECT_DOUBLE_EQ(bandwidth("--ranks-per-node 64"), 370e9) << "NVLink alone";
  const Finished text = plan(ask + "--nics-per-node 1");
  EXPECT_TRUE(says(text, "a collective of 64 ranks takes 297 us, and a second for each 40 GB"))
      << text.out;
  EXPECT_FALSE(says(text, "no --nics-per-node"));
  EXPECT_TRUE(says(plan(ask), "assumed: no --nics-per-node: a network card for each rank"));
}

// At stage 2 each of six units is gathered once, and its bucket reduced once; and there is the
// norm.
TEST(PlanAnswers, CollectivesAreCounted) {
  const TemporaryFile config(R"({"zero_optimization": {"reduce_bucket_size": 1}})");
  const auto document = plan_json(
      "--params 600M --layers 6 --seq 1024 --world-size 16 "
      "--device-memory H100 --config " +
      config.path());
  const auto& planned = variant(document, "stage 2");
  EXPECT_EQ(planned["collectives_per_step"].GetInt64(), 13);
  EXPECT_EQ(variant(document, "stage 3")["collectives_per_step"].GetInt64(), 19);
  const auto& seconds = planned["seconds"];
  EXPECT_GT(seconds["network_not_hidden"].GetDouble(), 0);
  EXPECT_LT(seconds["network_not_hidden"].GetDouble(), seconds["network"].GetDouble());
}

// Two of ten units of 100 M are more than 150 M.
TEST(PlanAnswers, ALimitThatKeepsGathersFromGoingAheadIsNamed) {
  const std::string ask = "--params 1e9 --layers 10 --world-size 8 --device-memory H100 ";
  const TemporaryFile tight(R"({"zero_optimization": {"stage3_max_live_parameters": 150e6}})");
  const TemporaryFile roomy(R"({"zero_optimization": {"stage3_max_live_parameters": 250e6}})");
  const TemporaryFile none(R"({"zero_optimization": {"stage3_max_live_parameters": 150e6,
      "stage3_prefetch_bucket_size": 0}})");
  const char* const kNote = "stage 3: no unit is gathered ahead, since two do not fit";
  EXPECT_TRUE(says(plan(ask + "--config " + tight.path()), kNote));
  EXPECT_FALSE(says(plan(ask + "--config " + roomy.path()), kNote));
  EXPECT_FALSE(says(plan(ask + "--config " + none.path()), kNote)) << "nobody asks for it";
  EXPECT_FALSE(says(plan(ask), kNote));
}

TEST(PlanAnswers, ASizeAloneHasTimesToo) {
  const std::string ask = "--model gpt:layers=2 --world-size 2 --device-memory 24GiB ";
  const auto document = plan_json(ask + "--bandwidth 1GB");
  EXPECT_TRUE(variant(document, "stage 2").HasMember("seconds"));
  EXPECT_EQ(source(document, "near_bytes"), "given");
  const Finished text = plan(ask);
  EXPECT_TRUE(says(text, "assumed: no device is named: the rates of a 3090")) << text.out;
  EXPECT_TRUE(says(text, "Rates that the times are made of")) << text.out;
}

TEST(PlanAnswers, TrafficHasATimeWithoutActivations) {
  const auto document =
      plan_json("--params 1e9 --world-size 2 --device cuda --layers 1 --bandwidth 2GB");
  const auto& planned = variant(document, "stage 2");
  const double sent = static_cast<double>(planned["sent_bytes_per_step"].GetInt64());
  EXPECT_NEAR(planned["network_seconds"].GetDouble(), sent / 2e9, 0.002);
  EXPECT_FALSE(planned.HasMember("seconds"));
}

TEST(PlanAnswers, ABandwidthWithoutAUnitIsRefusedWhateverElseIsAsked) {
  for (const char* more : {"", "--device cuda", "--device-memory 24GiB", "--device cpu"}) {
    const Finished refused = plan(std::string("--params 1e9 --bandwidth 25 ") + more);
    EXPECT_EQ(refused.exit_code, 2) << more;
    EXPECT_NE(refused.err.find("--bandwidth has no unit"), std::string::npos) << refused.err;
  }
}

// This machine has a GPU or not; either way the plan is for what is here, and says so.
TEST(PlanAnswers, TheDeviceIsTheOneHere) {
  const bool has_gpu = std::filesystem::exists("/proc/driver/nvidia/gpus");
  const Finished finished = plan("--params 10M");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(says(finished, has_gpu ? "no --device: cuda" : "no --device: cpu")) << finished.out;
  EXPECT_TRUE(says(finished, "The tree, walked")) << finished.out;
  if (has_gpu) return;
  const Finished elsewhere = plan("--params 10M --device cuda");
  EXPECT_TRUE(says(elsewhere, "assumed: no --device-memory, and no GPU is here")) << elsewhere.out;
  EXPECT_FALSE(says(elsewhere, "The tree, walked")) << elsewhere.out;
}

TEST(PlanAnswers, WhatIsLeftIsSaidOfEveryVariant) {
  const std::string ask =
      "--params 1e9 --world-size 1 --device-memory 10GiB --host-memory 10GiB --whole-masters";
  const auto document = plan_json(ask);
  for (const auto& each : document["variants"].GetArray()) {
    const bool fits =
        each["device_left_bytes"].GetInt64() >= 0 && each["host_left_bytes"].GetInt64() >= 0;
    EXPECT_EQ(each["fits"].GetBool(), fits) << each["name"].GetString();
  }
  const Finished text = plan(ask);
  EXPECT_TRUE(says(text, "  over by 4.9")) << text.out;       // 16 GB of 10 GiB
  EXPECT_TRUE(says(text, "  host over by 3.2")) << text.out;  // 14 GB,
}

// Where the CPU is the device, one memory holds both, and the mark is its end.
TEST(PlanAnswers, PicturesOfACpuShowWhereItsMemoryEnds) {
  const TemporaryFolder folder;
  const std::string svg = (folder.path() / "plan.svg").string();
  const std::string ask = "--params 100M --device cpu --host-memory 2GiB --svg " + svg;
  const Finished finished = plan(ask);
  EXPECT_TRUE(says(finished, "| where the memory ends")) << finished.out;
  EXPECT_NE(text_of(svg).find("class=\"limit\""), std::string::npos);
  EXPECT_NE(text_of(svg).find("2.00 GiB"), std::string::npos);
  // fp32: 4 bytes on the device, 16 on the host, and a unit's gradients that pass.
  const std::size_t row = finished.out.find("  stage 2 + offload_optimizer  ");
  const std::string line = finished.out.substr(row, finished.out.find('\n', row) - row);
  EXPECT_NE(line.find("1.87 GiB"), std::string::npos) << line;
}

}  // namespace
}  // namespace zeroshard::test
