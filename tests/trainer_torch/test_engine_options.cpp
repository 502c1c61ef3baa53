// From a ds_config.json to what the engine takes.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/config/read.h"
#include "zeroshard/setup/engine_options.h"

namespace zeroshard {
namespace {

Config config_of(const char* text) {
  const config::ReadResult read = config::read_config(text);
  EXPECT_FALSE(read.report.has_errors());
  return read.config;
}

std::vector<std::string> warnings_of(const char* text) {
  std::vector<std::string> lines;
  const LogScope scope({}, [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::warning) lines.emplace_back(line);
  });
  engine_options(config_of(text));
  return lines;
}

TEST(EngineOptions, TakesWhatTheFileSays) {
  const Config config = config_of(R"({
      "optimizer": {"type": "SGD", "params": {"lr": 0.5, "momentum": 0.9}},
      "bf16": {"enabled": true}, "gradient_clipping": 0.25,
      "zero_optimization": {"stage": 3, "reduce_bucket_size": 1000,
                            "stage3_param_persistence_threshold": 7}})");
  const EngineOptions options = engine_options(config, {DeviceKind::cuda, 1}, 4);
  EXPECT_EQ(options.zero.stage, 3);
  EXPECT_EQ(options.zero.reduce_bucket_numel, 1000);
  EXPECT_EQ(options.zero.persistence_numel, 7);
  EXPECT_EQ(options.precision.model(), DType::bf16);
  EXPECT_EQ(options.precision.gradient_clipping, 0.25);
  EXPECT_EQ(options.accumulation_steps, 4);
  EXPECT_EQ(options.device, (Device{DeviceKind::cuda, 1}));
  ASSERT_EQ(options.parameter_groups.size(), 1U);
  EXPECT_EQ(std::get<SgdOptions>(options.parameter_groups[0]).lr, 0.5);
  EXPECT_EQ(std::get<SgdOptions>(options.parameter_groups[0]).momentum, 0.9);
}

TEST(EngineOptions, AdamWhereTheFileNamesNoOptimizer) {
  const EngineOptions options = engine_options(config_of("{}"));
  ASSERT_EQ(options.parameter_groups.size(), 1U);
  EXPECT_EQ(std::get<AdamOptions>(options.parameter_groups[0]).lr, AdamOptions{}.lr);
  EXPECT_EQ(options.accumulation_steps, 1);
  EXPECT_EQ(options.device, kCpu);
}

TEST(EngineOptions, WarnsOfNothingThatIsDone) {
  EXPECT_TRUE(warnings_of("{}").empty());
  EXPECT_TRUE(warnings_of(R"({
      "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
      "zeroshard": {"device_budget": "1GiB", "host_budget": "1GiB", "speculative_update": true,
                    "delayed_update": true}})")
                  .empty());
}

TEST(EngineOptions, HandsOffloadOn) {
  const EngineOptions options = engine_options(config_of(R"({
      "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},
                            "offload_optimizer": {"device": "cpu", "ratio": 0.5, "pin_memory": false}}})"));
  EXPECT_EQ(options.offload.optimizer, Tier::host);
  EXPECT_EQ(options.offload.parameters, Tier::host);
  EXPECT_EQ(options.offload.optimizer_ratio, 0.5);
  EXPECT_FALSE(options.offload.pin_optimizer_memory);
}

TEST(EngineOptions, ABudgetAsksForTheHostByItself) {
  const EngineOptions options =
      engine_options(config_of(R"({"zeroshard": {"device_budget": "40GiB"}})"));
  EXPECT_EQ(options.offload.optimizer, Tier::host);
  EXPECT_EQ(options.zero.device_budget_bytes, std::int64_t{40} << 30);
}

TEST(EngineOptions, RefusesMicroStepsThatAreNone) {
  EXPECT_THROW(engine_options(config_of("{}"), kCpu, 0), ConfigError);
}

}  // namespace
}  // namespace zeroshard
