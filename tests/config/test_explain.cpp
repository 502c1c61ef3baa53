// Each key's effective value and where it came from.

#include <map>

#include "tests/config/config_support.h"
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

constexpr const char* kFile = R"({
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 4,
  "bf16": {"enabled": true},
  "optimizer": {"type": "adamw", "params": {"lr": 3e-4}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}},
  "zero_optimization": {"stage": 3, "prefetch_bucket_size": 1e6, "sub_group_size": 1e9,
                        "reduce_bucket_size": "auto"}
})";

TEST(Explain, NamesTheSourceOfEachValue) {
  const ReadResult read = read_config(kFile);
  const ExplainedKey given = explained(read, "train_batch_size");
  EXPECT_EQ(given.value, "64");
  EXPECT_EQ(given.source, Source::file);
  EXPECT_EQ(given.at, (Position{2, 23}));
  const ExplainedKey alias = explained(read, "zero_optimization.stage3_prefetch_bucket_size");
  EXPECT_EQ(alias.value, "1000000");
  EXPECT_EQ(alias.source, Source::file);
  EXPECT_EQ(explained(read, "gradient_clipping").source, Source::defaulted);
  EXPECT_EQ(explained(read, "gradient_clipping").at, Position{});
  EXPECT_EQ(explained(read, "zero_optimization.reduce_bucket_size").source, Source::automatic);
  EXPECT_EQ(explained(read, "communication_data_type").source, Source::derived);
  EXPECT_EQ(explained(read, "optimizer.params.lr").source, Source::file);
  EXPECT_EQ(explained(read, "optimizer.params.eps").source, Source::defaulted);
}

TEST(Explain, SourcesHaveTheWordsOfTheCommandLine) {
  EXPECT_EQ(name_of(Source::file), "file");
  EXPECT_EQ(name_of(Source::defaulted), "default");
  EXPECT_EQ(name_of(Source::derived), "derived");
  EXPECT_EQ(name_of(Source::automatic), "auto");
}

TEST(Explain, SaysWhereAKeyHasNoEffect) {
  const ReadResult read = read_config(kFile);
  EXPECT_NE(explained(read, "zero_optimization.sub_group_size").note.find("no effect"),
            std::string::npos);
}

TEST(Explain, SolvesTheTriadWithAWorldSize) {
  const ReadResult read = read_config(kFile, {.world_size = 8});
  EXPECT_EQ(explained(read, "gradient_accumulation_steps", 8).value, "2");
  EXPECT_EQ(explained(read, "gradient_accumulation_steps", 8).source, Source::derived);
  EXPECT_EQ(explained(read, "gradient_accumulation_steps", 16).value, "1");
  EXPECT_EQ(explained(read, "train_batch_size", 8).source, Source::file);
  EXPECT_EQ(explained(read, "gradient_accumulation_steps").value, "null");
  EXPECT_EQ(explained(read, "gradient_accumulation_steps").source, Source::defaulted);
  const ReadResult micro = read_config(R"({"train_micro_batch_size_per_gpu": 4})");
  EXPECT_EQ(explained(micro, "train_batch_size", 8).value, "32");
  EXPECT_EQ(explained(micro, "gradient_accumulation_steps", 8).value, "1");
}

TEST(Explain, OverlapFollowsTheStage) {
  for (int stage = 0; stage <= 3; ++stage) {
    const ReadResult read = read_config(nested("zero_optimization.stage", std::to_string(stage)));
    const ExplainedKey row = explained(read, "zero_optimization.overlap_comm");
    EXPECT_EQ(row.value, stage == 3 ? "true" : "false") << stage;
    EXPECT_EQ(row.source, Source::derived);
    EXPECT_FALSE(row.note.empty());
  }
  const ReadResult given = read_config(nested("zero_optimization.overlap_comm", "true"));
  EXPECT_EQ(explained(given, "zero_optimization.overlap_comm").source, Source::file);
  EXPECT_EQ(explained(given, "zero_optimization.overlap_comm").value, "true");
}

TEST(Explain, DtypesFollowTheModels) {
  const std::map<std::string, std::string> expected{{"{}", "\"fp32\""},
                                                    {R"({"fp16": {"enabled": true}})", "\"fp16\""},
                                                    {R"({"bf16": {"enabled": true}})", "\"bf16\""}};
  for (const auto& [text, dtype] : expected) {
    EXPECT_EQ(explained(read_config(text), "communication_data_type").value, dtype);
    EXPECT_EQ(explained(read_config(text), "data_types.grad_accum_dtype").value, dtype);
  }
  const ReadResult given =
      read_config(R"({"bf16": {"enabled": true}, "communication_data_type": "float32"})");
  EXPECT_EQ(explained(given, "communication_data_type").value, "\"fp32\"");
  EXPECT_EQ(explained(given, "communication_data_type").source, Source::file);
}

TEST(Explain, SchedulesTakeWhatTheyLackFromTheirNeighbours) {
  const ReadResult read = read_config(kFile);
  const ExplainedKey rate = explained(read, "scheduler.params.warmup_max_lr");
  EXPECT_EQ(std::stod(rate.value), 3e-4);
  EXPECT_EQ(rate.source, Source::derived);
  const ReadResult alone = read_config(R"({"scheduler": {"type": "WarmupLR"}})");
  EXPECT_EQ(explained(alone, "scheduler.params.warmup_max_lr").value, "null");
  const ReadResult cycle = read_config(R"({"scheduler": {"type": "OneCycle", "params": {
      "cycle_min_lr": 0, "cycle_max_lr": 1, "cycle_first_step_size": 77,
      "cycle_first_stair_count": 5}}})");
  EXPECT_EQ(explained(cycle, "scheduler.params.cycle_second_step_size").value, "77");
  EXPECT_EQ(explained(cycle, "scheduler.params.cycle_second_stair_count").value, "5");
}

TEST(Explain, TellsTheDecayThatTorchAdamBrings) {
  const ReadResult read =
      read_config(R"({"optimizer": {"type": "AdamW", "params": {"torch_adam": true}}})");
  EXPECT_EQ(explained(read, "optimizer.params.weight_decay").value, "0.01");
}

std::map<std::string, int> times_explained(std::string_view text) {
  std::map<std::string, int> times;
  for (const ExplainedKey& row : explain(read_config(text), 4)) ++times[row.key];
  return times;
}

TEST(Explain, HasEveryKeyOnceAndParametersOfTheChosenTypesOnly) {
  for (const std::string& optimizer : key_table().kind_names("optimizer", true)) {
    for (const std::string& schedule : key_table().kind_names("scheduler", true)) {
      const auto times = times_explained(
          fmt::format(R"({{"optimizer": {{"type": "{}"}}, "scheduler": {{"type": "{}"}}}})",
                      optimizer, schedule));
      for (const Key& key : key_table().keys()) {
        const bool here = key.applies_to(optimizer) || key.applies_to(schedule);
        if (key.deprecated() || !here) continue;
        ASSERT_EQ(times.count(key.path), 1U) << key.path << ' ' << optimizer << ' ' << schedule;
      }
      for (const auto& [key, count] : times) EXPECT_EQ(count, 1) << key;
    }
  }
}

TEST(Explain, LeavesParametersOutWhereNoTypeWasChosen) {
  for (const char* text : {"{}", R"({"optimizer": {"type": "Lamb", "params": {"lr": 1}}})"}) {
    for (const auto& [key, count] : times_explained(text)) {
      EXPECT_EQ(key.find("params."), std::string::npos) << key;
    }
  }
}

// Files with errors are explained too: nothing in them may throw.
TEST(Explain, SurvivesATypeGivenTwice) {
  for (const char* text : {R"({"optimizer": {"type": "Adam", "type": "SGD"}})",
                           R"({"optimizer": {"type": "SGD"}, "optimizer": {"type": "Adam"}})",
                           R"({"scheduler": {"type": "WarmupLR", "type": "OneCycle"}})",
                           R"({"optimizer": {"type": "SGD", "type": "Lamb"}})"}) {
    const ReadResult read = read_config(text);
    EXPECT_TRUE(read.report.has_errors());
    EXPECT_NO_THROW(explain(read, 2)) << text;
  }
}

// What it prints for a string can be written into a file again.
TEST(Explain, ValuesCanBeReadBack) {
  for (const char* text : {R"({"tensorboard": {"job_name": "a\"b\\c\nd\u0001é"}})",
                           R"({"tensorboard": {"job_name": ""}})"}) {
    const ReadResult first = read_config(text);
    const std::string value = explained(first, "tensorboard.job_name").value;
    const ReadResult second = read_config(nested("tensorboard.job_name", value));
    EXPECT_EQ(second.config.monitor.tensorboard.job_name, first.config.monitor.tensorboard.job_name)
        << value;
  }
}

}  // namespace
}  // namespace zeroshard::config
