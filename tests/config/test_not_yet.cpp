// What this version does not do yet: one list, which every door speaks from.

#include "tests/config/config_support.h"
#include "zeroshard/config/not_yet.h"

namespace zeroshard::config {
namespace {

constexpr const char* kAsksForAll = R"({
  "zero_optimization": {"stage": 3,
                        "offload_optimizer": {"device": "nvme", "pin_memory": false},
                        "offload_param": {"device": "nvme"}},
  "zeroshard": {"device_budget": "1GiB", "host_budget": "1GiB", "speculative_update": true}})";

TEST(NotYet, EachKeyThatAsksForItWarns) {
  EXPECT_EQ(kinds_of_problems(kAsksForAll),
            (Lines{"warning not_yet zero_optimization.offload_optimizer.device",
                   "warning not_yet zero_optimization.offload_param.device",
                   "warning not_yet zeroshard.speculative_update"}));
}

TEST(NotYet, AskingForNothingIsFine) {
  good_config(R"({"zero_optimization": {"stage": 3,
                     "offload_optimizer": {"device": "none", "pin_memory": true, "ratio": 0.3},
                     "offload_param": {}},
                  "zeroshard": {"speculative_update": false, "delayed_update": false}})");
}

TEST(NotYet, WhatIsLeftIsWhatARunDoes) {
  Config config = read_config(kAsksForAll).config;
  EXPECT_EQ(config.zero.speculative_update, true) << "the file is read as it stands";
  leave_out_what_is_not_yet(config);
  EXPECT_EQ(config.zero.stage, 3);
  EXPECT_EQ(config.offload.optimizer, Tier::host) << "the host stands for the disk";
  EXPECT_EQ(config.offload.parameters, Tier::host);
  EXPECT_EQ(config.zero.device_budget_bytes, 1 << 30);
  EXPECT_EQ(config.zero.host_budget_bytes, 1 << 30);
  EXPECT_EQ(config.zero.speculative_update, std::nullopt);
}

TEST(NotYet, AConfigMadeByHandIsToldTheSame) {
  Config config;
  EXPECT_TRUE(asked_but_not_yet(config).empty());
  config.zero.speculative_update = true;
  EXPECT_EQ(asked_but_not_yet(config),
            (Lines{"zeroshard.speculative_update = true: not in this version yet; updates on the "
                   "host start when the norm is known"}));
}

TEST(NotYet, WhatWouldChangeResultsIsRefused) {
  EXPECT_EQ(kinds_of_problems(nested("zeroshard.delayed_update", "true")),
            (Lines{"error unsupported zeroshard.delayed_update"}));
}

TEST(NotYet, IsExplainedInTheSameWords) {
  const ReadResult read = read_config(kAsksForAll);
  EXPECT_EQ(explained(read, "zeroshard.speculative_update").note,
            "not in this version yet; updates on the host start when the norm is known");
}

TEST(NotYet, EveryRowCanBeLeftOut) {
  ASSERT_EQ(refused_keys_not_yet().size(), 1U);
  EXPECT_EQ(refused_keys_not_yet()[0]->path, "zeroshard.delayed_update");
  EXPECT_GE(keys_not_yet().size(), 1U);
  for (const Key* key : keys_not_yet()) EXPECT_TRUE(key->copy) << key->path;
}

}  // namespace
}  // namespace zeroshard::config
