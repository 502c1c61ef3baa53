// "auto" is kept as a value until the caller resolves it.

#include "tests/config/config_support.h"
#include "zeroshard/base/error.h"
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

constexpr const char* kHuggingFace = R"({
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                                            "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto",
      "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}},
  "fp16": {"enabled": "auto"},
  "bf16": {"enabled": "auto"},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "overlap_comm": "auto",
      "stage3_prefetch_bucket_size": "auto", "param_persistence_threshold": "auto",
      "offload_optimizer": {"device": "auto"}}
})";

TEST(Auto, KeepsTheDefaultAndSaysSo) {
  const ReadResult read = read_config(kHuggingFace);
  EXPECT_TRUE(read.report.problems().empty());
  EXPECT_FALSE(read.config.batch.train);
  EXPECT_EQ(read.config.precision.gradient_clipping, 1.0);
  EXPECT_EQ(read.config.zero.reduce_bucket_numel, 500'000'000);
  EXPECT_EQ(std::get<AdamOptions>(*read.config.optimizer).lr, 1e-3);
  for (const char* key :
       {"train_batch_size", "gradient_clipping", "optimizer.params.lr",
        "scheduler.params.total_num_steps", "bf16.enabled", "zero_optimization.reduce_bucket_size",
        "zero_optimization.stage3_param_persistence_threshold"}) {
    const ExplainedKey row = explained(read, key);
    EXPECT_EQ(row.source, Source::automatic) << key;
    EXPECT_GT(row.at.line, 0) << key;
    EXPECT_FALSE(row.note.empty()) << key;
  }
  EXPECT_EQ(explained(read, "zero_optimization.reduce_bucket_size").value, "500000000");
}

TEST(Auto, IsResolvedByTheCaller) {
  ReadResult read = read_config(kHuggingFace);
  resolve_auto(read, "train_batch_size", "64");
  resolve_auto(read, "gradient_clipping", "0.5");
  resolve_auto(read, "optimizer.params.lr", "5e-5");
  resolve_auto(read, "optimizer.params.betas", "[0.8, 0.95]");
  resolve_auto(read, "scheduler.params.total_num_steps", "1e4");
  resolve_auto(read, "bf16.enabled", "true");
  resolve_auto(read, "zero_optimization.stage3_param_persistence_threshold", "40960");
  resolve_auto(read, "zero_optimization.offload_optimizer.device", "\"cpu\"");
  EXPECT_EQ(read.config.batch.train, 64);
  EXPECT_EQ(read.config.precision.gradient_clipping, 0.5);
  const auto& adam = std::get<AdamOptions>(*read.config.optimizer);
  EXPECT_EQ(adam.lr, 5e-5);
  EXPECT_EQ(adam.betas, (std::array<double, 2>{0.8, 0.95}));
  EXPECT_EQ(std::get<WarmupDecayLrOptions>(*read.config.scheduler).total_num_steps, 10'000);
  EXPECT_TRUE(read.config.precision.bf16.enabled);
  EXPECT_EQ(read.config.zero.persistence_numel, 40'960);
  EXPECT_EQ(read.config.offload.optimizer, Tier::host);
  const ExplainedKey row = explained(read, "optimizer.params.lr");
  EXPECT_EQ(row.source, Source::resolved);
  EXPECT_EQ(std::stod(row.value), 5e-5);
}

TEST(Auto, AResolutionThatDoesNotFitChangesNothing) {
  ReadResult read = read_config(kHuggingFace);
  for (const char* value : {"\"many\"", "0", "-4", "1.5", "[8]", "null", "{}", "", "8 8", "8}",
                            "\"auto\"", "8, \"train_micro_batch_size_per_gpu\": 4"}) {
    EXPECT_THROW(resolve_auto(read, "train_batch_size", value), ConfigError) << value;
    EXPECT_FALSE(read.config.batch.train) << value;
    EXPECT_EQ(explained(read, "train_batch_size").source, Source::automatic) << value;
  }
  resolve_auto(read, "train_batch_size", "8");
  EXPECT_EQ(read.config.batch.train, 8);
}

TEST(Auto, OnlyWhatIsAtAutoIsResolved) {
  ReadResult read = read_config(kHuggingFace);
  EXPECT_THROW(resolve_auto(read, "zero_optimization.stage", "2"), ConfigError) << "given";
  EXPECT_THROW(resolve_auto(read, "steps_per_print", "2"), ConfigError) << "not given";
  EXPECT_THROW(resolve_auto(read, "no_such_key", "2"), ConfigError);
  resolve_auto(read, "gradient_clipping", "2");
  EXPECT_THROW(resolve_auto(read, "gradient_clipping", "3"), ConfigError) << "resolved before";
  EXPECT_EQ(read.config.precision.gradient_clipping, 2.0);
  EXPECT_EQ(read.config.zero.stage, 3);
}

TEST(Auto, ResolvingToDiskOffloadGoesToTheHost) {
  ReadResult read = read_config(kHuggingFace);
  resolve_auto(read, "zero_optimization.offload_optimizer.device", "\"nvme\"");
  EXPECT_EQ(read.config.offload.optimizer, Tier::host);
}

TEST(Auto, ResolvingToWhatWeLackThrows) {
  ReadResult read = read_config(nested("zero_optimization.zero_quantized_weights", "\"auto\""));
  EXPECT_THROW(resolve_auto(read, "zero_optimization.zero_quantized_weights", "true"), ConfigError);
  resolve_auto(read, "zero_optimization.zero_quantized_weights", "false");
}

TEST(Auto, AsAStageIsLeftToThePlan) {
  ReadResult read = read_config(R"({"zero_optimization": {"stage": "auto"}})");
  EXPECT_TRUE(read.report.problems().empty());
  EXPECT_EQ(explained(read, "zero_optimization.stage").source, Source::automatic);
  resolve_auto(read, "zero_optimization.stage", "3");
  EXPECT_EQ(read.config.zero.stage, 3);
  EXPECT_EQ(explained(read, "zero_optimization.overlap_comm").value, "true");
}

// A file that sets one key of the table to a value, with the type the key needs around it.
std::string file_with(const Key& key, const std::string& kind, std::string_view value) {
  if (kind.empty()) return nested(key.path, value);
  std::string params;
  for (const Key& other : key_table().keys()) {
    const bool same_params = parent_of(other.path) == parent_of(key.path);
    if (!same_params || !other.applies_to(kind) || other.path == key.path) continue;
    if (other.required) params += fmt::format("\"{}\": \"auto\", ", other.name());
  }
  return fmt::format(R"({{"{}": {{"type": "{}", "params": {{{}"{}": {}}}}}}})",
                     parent_of(parent_of(key.path)), kind, params, key.name(), value);
}

TEST(Auto, IsSilentForEveryKeyButTheTypes) {
  int tried = 0;
  for (const Key& key : key_table().keys()) {
    const bool type = key.name() == "type";
    if (type || key.deprecated()) continue;
    const bool any_schedule = key.path == "scheduler.params.last_batch_iteration";
    const std::vector<std::string> kinds =
        any_schedule ? key_table().kind_names("scheduler", true) : key.only_for;
    for (const auto& kind : kinds.empty() ? std::vector<std::string>{""} : kinds) {
      const std::string text = file_with(key, kind, "\"auto\"");
      const bool reported = key.path == "optimizer.legacy_fusion";  // without its type here
      EXPECT_EQ(problems_of(text).empty(), !reported) << text;
      const ReadResult read = read_config(text);
      ASSERT_TRUE(read.provenance.contains(key.path)) << text;
      EXPECT_EQ(read.provenance.at(key.path).source, Source::automatic) << text;
      ++tried;
    }
  }
  EXPECT_GT(tried, 150);
}

// Nobody resolves a type: the parameters beside it could not be checked.
TEST(Auto, IsNoType) {
  for (const char* section : {"optimizer", "scheduler"}) {
    EXPECT_TRUE(read_config(nested(section, R"({"type": "auto"})")).report.has_errors());
  }
}

}  // namespace
}  // namespace zeroshard::config
