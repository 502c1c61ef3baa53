// `zeroshard plan` end to end: tables, tree, files, and what is refused.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/cli/plan_answers.h"
#include "tests/config/seed_files.h"
#include "tests/support/temporary_folder.h"

namespace zeroshard::test {
namespace {

// The cells of the first table's row for a stage without offload.
std::string row_of(const std::string& text, int stage) {
  const std::string start = "\n  " + std::to_string(stage) + "   ";
  const std::size_t at = text.find(start);
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

TEST(PlanVerb, PrintsThePapersTableWithWholeMasters) {
  const Finished finished = plan("--params 7.5e9 --world-size 64 --device cuda --whole-masters");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const char* states[] = {"120 GB", "31.4 GB", "16.6 GB", "1.88 GB"};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_NE(row_of(finished.out, stage).find(states[stage]), std::string::npos) << finished.out;
  }
  EXPECT_TRUE(says(finished, "bf16 with whole fp32 master")) << finished.out;
  EXPECT_TRUE(says(finished, "assumed: no --config: 16-bit")) << finished.out;
}

TEST(PlanVerb, MastersInTwoHalvesTakeTwoBytesLess) {
  const Finished finished = plan("--params 7.5e9 --world-size 64 --device cuda");
  const char* states[] = {"105 GB", "31.2 GB", "16.4 GB", "1.64 GB"};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_NE(row_of(finished.out, stage).find(states[stage]), std::string::npos) << finished.out;
  }
}

TEST(PlanVerb, JsonHasExactBytes) {
  const auto document = plan_json("--params 64M --world-size 2 --layers 1 --device cuda");
  ASSERT_EQ(document["variants"].Size(), 9U);
  const auto& device = variant(document, "stage 2")["device_bytes"];
  EXPECT_EQ(device["parameters"].GetInt64(), 128'000'000);
  EXPECT_EQ(device["gradients"].GetInt64(), 64'000'000);
  EXPECT_EQ(device["master"].GetInt64(), 64'000'000);
  EXPECT_EQ(device["moments"].GetInt64(), 256'000'000);
  EXPECT_EQ(device["states"].GetInt64(), 512'000'000);
  const auto& host = variant(document, "stage 2 + offload_optimizer")["host_bytes"];
  EXPECT_EQ(host["master"].GetInt64(), 128'000'000) << "whole, since its parameters are elsewhere";
}

TEST(PlanVerb, TheConfigDecidesPrecisionStageAndTiers) {
  const TemporaryFile config(
      R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
         "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}})");
  const std::string ask = "--params 1e9 --world-size 4 --device cuda --config " + config.path();
  const Finished finished = plan(ask);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(says(finished, "> 3 +opt +param")) << finished.out;
  // Stage 3: (2 + 2 + 2 + 8) bytes a parameter over 4 ranks, all of them on the host.
  EXPECT_TRUE(says(finished, "3.5 GB")) << finished.out;
  EXPECT_EQ(finished.err, "");
  EXPECT_STREQ(plan_json(ask)["configured"].GetString(),
               "stage 3 + offload_optimizer + offload_param");
}

// Those that ask for offload have the optimizer states of their stage on the host, and no others.
TEST(PlanVerb, TheSeedFilesArePlannedAsTheyStand) {
  for (const auto& [name, text] : config::kSeedFiles) {
    SCOPED_TRACE(name);
    const TemporaryFile file(text);
    const auto document =
        plan_json("--params 1e9 --world-size 4 --device cuda --config " + file.path());
    const auto& configured = variant(document, document["configured"].GetString());
    const std::string_view all(text);
    const bool offloads = all.find("offload_optimizer") != std::string_view::npos;
    const char* states = offloads ? "host_bytes" : "device_bytes";
    const char* others = offloads ? "device_bytes" : "host_bytes";
    EXPECT_GE(configured[states]["moments"].GetInt64(), 2'000'000'000);
    EXPECT_EQ(configured[others]["moments"].GetInt64(), 0);
    const bool both = all.find("offload_param") != std::string_view::npos;
    EXPECT_EQ(configured["host_bytes"]["parameters"].GetInt64() > 0, both);
  }
}

TEST(PlanVerb, ABudgetSaysWhatStaysOnTheDevice) {
  const auto with_budget = [](const std::string& budget) {
    const TemporaryFile config(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
        "zeroshard": {"device_budget": ")" +
                               budget + R"(", "halved_masters": false}})");
    const Finished finished =
        plan("--params 3200M --layers 32 --world-size 1 --device cuda --config " + config.path());
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.out;
  };
  // 6.4 GB of parameters, 0.2 of gradients that pass, 1.4 for each unit that stays.
  const std::string half = with_budget("30GB");
  EXPECT_NE(half.find("stage 2: the first 16 units keep their optimizer states on the device"),
            std::string::npos)
      << half;
  const std::string small = with_budget("5GB");
  EXPECT_NE(small.find("\ndoes not fit: stage 0, stage 1, stage 2, "), std::string::npos) << small;
  const std::string words = ": zeroshard.device_budget is less than this model needs on the device";
  EXPECT_NE(small.find(words), std::string::npos) << small;
}

// The words of check and plan, and the bytes of a file that says what train would choose.
TEST(PlanVerb, BucketsAreThoseThatTrainChooses) {
  const TemporaryFile open(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
  const TemporaryFile said(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2,
      "overlap_comm": false, "reduce_bucket_size": 1250000, "stage3_prefetch_bucket_size": 0}})");
  const std::string ask =
      "--params 10M --world-size 4 --device cpu --host-memory 64GiB --json --config ";
  const auto variants = [&](const TemporaryFile& file) {
    const Finished finished = plan(ask + file.path());
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    const std::size_t begin = finished.out.find("\"variants\"");
    return finished.out.substr(begin, finished.out.find("\"config_to_use\"") - begin);
  };
  EXPECT_EQ(variants(open), variants(said));
  const Finished text = plan("--params 10M --world-size 4 --device cpu --config " + open.path());
  EXPECT_TRUE(says(text, "assumed: no reduce_bucket_size: 1250000")) << text.out;
}

TEST(PlanVerb, AccumulationCountsWhetherGivenOrDerived) {
  const std::string sizes = R"("train_batch_size": 16, "train_micro_batch_size_per_gpu": 2)";
  const std::string rest = R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 2})";
  const TemporaryFile derived("{" + sizes + ", " + rest + "}");
  const TemporaryFile given("{" + sizes + R"(, "gradient_accumulation_steps": 4, )" + rest + "}");
  const std::string ask = "--params 10M --world-size 2 --device cuda --config ";
  const auto bytes = [&](const TemporaryFile& file) {
    const auto document = plan_json(ask + file.path());
    EXPECT_EQ(document["micro_steps"].GetInt64(), 4);
    return variant(document, "stage 2")["device_bytes"]["gradients"].GetInt64();
  };
  EXPECT_EQ(bytes(derived), bytes(given));
}

TEST(PlanVerb, RanksComeFromTheBatchSizesWhereNobodySays) {
  const TemporaryFile config(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,
                                 "gradient_accumulation_steps": 2})");
  const Finished finished = plan("--params 1e9 --config " + config.path());
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(says(finished, "no --world-size: 8 ranks, from the batch sizes")) << finished.out;
  EXPECT_EQ(plan("--params 1e9 --world-size 3 --config " + config.path()).exit_code, 2);
}

constexpr const char* kGpt =
    "--model gpt:layers=24,hidden=2048,heads=16,seq=2048,vocab=32000,positions=rotary,norm=rms,"
    "activation=swiglu,checkpoint=true --micro-batch 4 ";

// What the walked tree says is what the table says, and the least drastic change is taken.
TEST(PlanVerb, TheTreeIsWalkedInWords) {
  const auto tree = [](const std::string& memory) {
    const auto document = plan_json(kGpt + ("--device-memory " + memory));
    std::string words;
    for (const auto& line : document["tree"].GetArray())
      words += line.GetString() + std::string("\n");
    EXPECT_EQ(std::string(document["chosen"].GetString()).empty(), false);
    return std::pair{words, std::string(document["chosen"].GetString())};
  };
  const auto [all, chosen] = tree("H100");
  EXPECT_EQ(chosen, "stage 2");
  EXPECT_NE(all.find("GiB of 79.65 GiB on the device, fits: stop"), std::string::npos) << all;
  const auto [less, offloaded] = tree("12GiB");
  EXPECT_EQ(offloaded, "stage 2 + offload_optimizer");
  EXPECT_NE(less.find("of 12.00 GiB on the device, does not fit\n"), std::string::npos) << less;
  EXPECT_NE(less.find("  + offload_optimizer: "), std::string::npos) << less;
  EXPECT_EQ(tree("4GiB").second, "stage 3 + offload_optimizer + offload_param");
  const Finished none = plan(kGpt + std::string("--device-memory 1GiB"));
  EXPECT_EQ(none.exit_code, 0) << none.err;
  EXPECT_TRUE(says(none, "nothing fits: take more ranks")) << none.out;
}

// The largest that is said to fit does, and one more does not.
TEST(PlanVerb, TheLargestIsTheLargest) {
  const auto fits = [](const std::string& more) {
    const auto document = plan_json(more + " --device-memory 24GiB");
    return document["chosen"].GetString() == std::string("stage 2");
  };
  const auto document = plan_json(kGpt + std::string("--device-memory 24GiB"));
  const auto micro_batch = document["largest_micro_batch"].GetInt64();
  const std::string model(kGpt);
  const std::string shape = model.substr(0, model.find(" --micro-batch"));
  EXPECT_TRUE(fits(shape + " --micro-batch " + std::to_string(micro_batch)));
  EXPECT_FALSE(fits(shape + " --micro-batch " + std::to_string(micro_batch + 1)));
}

TEST(PlanVerb, TheConfigToUseIsWrittenAndAccepted) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "use.json").string();
  const TemporaryFile config(R"({"train_micro_batch_size_per_gpu": 4, // kept
      "zero_optimization": {"stage": "auto", "reduce_bucket_size": 5e7}, "bf16": {"enabled": true}})");
  const Finished finished =
      plan(kGpt + ("--device-memory 12GiB --config " + config.path() + " --write " + file));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  std::ifstream in(file);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(text.find("\"stage\": 2"), std::string::npos) << text;
  EXPECT_NE(text.find("\"device\": \"cpu\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"reduce_bucket_size\": 5e7"), std::string::npos) << text;
  EXPECT_EQ(run_program(ZEROSHARD_BINARY, "config check " + file).exit_code, 0);
}

TEST(PlanVerb, PicturesAndPagesAreWhole) {
  const TemporaryFolder folder;
  const std::string svg = (folder.path() / "plan.svg").string();
  const std::string html = (folder.path() / "plan.html").string();
  const Finished finished = plan(kGpt + ("--device-memory H100 --svg " + svg + " --html " + html));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const auto read = [](const std::string& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (const std::string& text : {read(svg), read(html)}) {
    EXPECT_NE(text.find("stage 3 + offload_optimizer"), std::string::npos);
    EXPECT_NE(text.find("H100, 79.65 GiB"), std::string::npos);
    EXPECT_NE(text.find("prefers-color-scheme: dark"), std::string::npos);
    EXPECT_EQ(text.find("http://", text.find("w3.org") + 10), std::string::npos)
        << "nothing is loaded";
    EXPECT_EQ(text.find("<script"), std::string::npos);
  }
  EXPECT_EQ(read(svg).substr(0, 4), "<svg");
  const Finished refused = plan("--params 1e9 --svg /nowhere/plan.svg");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("/nowhere/plan.svg"), std::string::npos) << refused.err;
}

TEST(PlanVerb, ConfigurationsAreCompared) {
  const TemporaryFile two(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
  const TemporaryFile three(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})");
  const Finished finished = plan("--params 7.5e9 --world-size 8 --device cuda --compare " +
                                 two.path() + " " + three.path());
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(says(finished, two.path())) << finished.out;
  EXPECT_TRUE(says(finished, three.path())) << finished.out;
  EXPECT_TRUE(says(finished, "26.3 GB")) << finished.out;  // sent at stage 2: 2 x 15 GB x 7 / 8
}

// Device names, also those of GPUs' own drivers; a number and a unit is a size.
TEST(PlanVerb, DevicesAreKnownByName) {
  const auto bytes = [](const std::string& memory) {
    const auto document = plan_json("--params 1e9 --seq 128 --device-memory '" + memory + "'");
    return document["device_memory_bytes"].GetInt64();
  };
  EXPECT_EQ(bytes("H100"), 81559LL << 20);
  EXPECT_EQ(bytes("NVIDIA H100 80GB HBM3"), 81559LL << 20);
  EXPECT_EQ(bytes("4090"), 24564LL << 20);
  EXPECT_EQ(bytes("A100-40GB"), 40960LL << 20);
  EXPECT_EQ(bytes("a100"), 81920LL << 20);
  EXPECT_EQ(bytes("24GiB"), 24LL << 30);
  EXPECT_EQ(bytes("40GB"), 40'000'000'000);
}

TEST(PlanVerb, NonsenseGetsOneSentence) {
  const TemporaryFile shapeless(R"({"model_type": "llama", "hidden_size": 4096})");
  const TemporaryFile unknown(R"({"model_type": "mamba", "hidden_size": 4096})");
  const TemporaryFile negative(
      R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": -1})");
  const TemporaryFile no_json("hello");
  const TemporaryFile gpt2(R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 768})");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"--params 0", "a model has parameters"},
      {"--params -5", "--params"},
      {"--params 1e9 --world-size 0", "--world-size"},
      {"--params 1e9 --device-memory 24", "--device-memory has no unit"},
      {"--params 1e9 --device-memory -24GiB", "--device-memory"},
      {"--params 1e9 --device-memory 0GiB", "--device-memory is nothing"},
      {"--params 1e9 --device-memory Z80", "no device that is known"},
      {"--params 1e9 --host-memory 64", "--host-memory has no unit"},
      {"--params 1e9 --micro-batch 0", "--micro-batch"},
      {"--params 1e9 --lora-rank 8", "adapters need a model whose shapes are known"},
      {"--params 1e9 --model gpt:", "both say what is planned for"},
      {"", "there is no model to plan for"},
      {"--model gpt:layers=0", "layers"},
      {"--model /nowhere", "there is no such model"},
      {"--model " + shapeless.path(), "num_hidden_layers is missing"},
      {"--model " + unknown.path(), "model_type whose shapes are not known here: mamba"},
      {"--model " + negative.path(), "no size"},
      {"--model " + no_json.path(), "JSON"},
      {"--params 9e18 --world-size 2", "--params is out of range"},
      {"--model gpt: --seq 16777216 --micro-batch 1048576", "more than any device holds"},
      {"--params 1e9 --seq 16777216 --micro-batch 1048576", "more than any device holds"},
      {"--model " + gpt2.path() + " --seq 8192", "positions for fewer tokens"},
      {"--model " + gpt2.path() + " --seq 1024 --micro-batch 1048576",
       "more than any device holds"},
      {"--model gpt:layers=10000,hidden=1048576,heads=1024", "size is out of range"},
      {"--model gpt:hidden=4294967296", "hidden is out of range"},
      {"--params 1e9 --device-memory 8000000TiB", "--device-memory is out of range"},
  };
  for (const auto& [arguments, words] : cases) {
    SCOPED_TRACE(arguments);
    const Finished finished = plan(arguments);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_EQ(finished.out, "");
    EXPECT_NE(finished.err.find(words), std::string::npos) << finished.err;
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  }
}

TEST(PlanVerb, ABadConfigIsRefused) {
  const TemporaryFile config(R"({"zero_optimization": {"stage": 9}})");
  const Finished finished = plan("--params 1e9 --config " + config.path());
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("zero_optimization.stage = 9"), std::string::npos) << finished.err;
}

TEST(PlanVerb, AStepOfTooManyMicroStepsIsBeyondCounting) {
  const TemporaryFile config(R"({"train_micro_batch_size_per_gpu": 1,
                                 "gradient_accumulation_steps": 2147483647})");
  const Finished finished = plan("--params 1000T --world-size 2 --config " + config.path());
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_NE(finished.err.find("--params is out of range"), std::string::npos) << finished.err;
}

constexpr const char* kQuick[] = {
    "--model gpt:layers=128,hidden=25600,heads=160,seq=2048,vocab=51200,checkpoint=true "
    "--world-size 4096 --device-memory H100 --host-memory 2TiB",
    "--params 1e12 --layers 1000 --world-size 4096 --device-memory H100 --host-memory 2TiB",
    "--params 1e12 --layers 1000 --seq 2048 --world-size 4096 --device-memory H100",
    "--model gpt:layers=2,hidden=64,heads=2,vocab=256,seq=64 --device-memory H100",
};

// In milliseconds, the start of the process included. The fastest of some, since others compute
// here, too.
double fastest(const std::string& arguments) {
  double least = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Finished finished = plan(arguments);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    least = std::min(least, took.count());
    if (least < 20) break;
  }
  return least;
}

// A trillion parameters on 4,096 ranks, a thousand layers, and a model so small that its largest
// has as many layers as are looked at. A build without optimisation, under sanitizers at that, only
// has to come to an end.
TEST(PlanVerb, ATrillionParametersTakeNoTime) {
#if defined(NDEBUG) && defined(__OPTIMIZE__)
  constexpr double kMost = 50.0;
#else
  constexpr double kMost = 5000.0;
#endif
  for (const char* arguments : kQuick) EXPECT_LT(fastest(arguments), kMost) << arguments;
  const TemporaryFile llama(R"({"model_type": "llama", "hidden_size": 1536, "num_hidden_layers": 32,
      "intermediate_size": 4096, "num_attention_heads": 16, "vocab_size": 32000})");
  const std::string small = "--world-size 8 --device-memory B200 --host-memory 1TiB";
  EXPECT_LT(fastest("--model " + llama.path() + " " + small), kMost);
}

}  // namespace
}  // namespace zeroshard::test
