// What the keys of offload ask for together, and what is said where they cannot have it.
#include "tests/config/config_support.h"

namespace zeroshard::config {
namespace {

std::string offloading(const std::string& optimizer, const std::string& parameters,
                       const std::string& own) {
  return fmt::format(R"({{"zero_optimization": {{"stage": 3,
                            "offload_optimizer": {{"device": "{}"}},
                            "offload_param": {{"device": "{}"}}}}, "zeroshard": {{{}}}}})",
                     optimizer, parameters, own);
}

TEST(OffloadKeys, TheDiskIsTheHostAndAWarning) {
  const std::string text = offloading("nvme", "nvme", "");
  EXPECT_EQ(kinds_of_problems(text),
            (Lines{"warning not_yet zero_optimization.offload_optimizer.device",
                   "warning not_yet zero_optimization.offload_param.device"}));
  EXPECT_EQ(read_config(text).config.offload.optimizer, Tier::host);
}

TEST(OffloadKeys, BudgetsAndEarlyUpdatesAreSilent) {
  good_config(offloading("cpu", "none",
                         R"("device_budget": "1GiB", "host_budget": "1GiB",
                            "speculative_update": true)"));
  good_config(R"({"zero_optimization": {"stage": 3,
                     "offload_optimizer": {"device": "none", "pin_memory": true, "ratio": 0.3},
                     "offload_param": {}},
                  "zeroshard": {"speculative_update": false, "delayed_update": false}})");
}

TEST(OffloadKeys, ADelayedUpdateIsLabelledAsChangingResults) {
  const std::string text = offloading("cpu", "none", R"("delayed_update": true)");
  EXPECT_EQ(kinds_of_problems(text), (Lines{"warning changes_results zeroshard.delayed_update"}));
  EXPECT_TRUE(read_config(text).config.zero.delayed_update);
  EXPECT_EQ(kinds_of_problems(R"({"zeroshard": {"delayed_update": true,
                                                "device_budget": "1GiB"}})"),
            (Lines{"warning changes_results zeroshard.delayed_update"}));
}

TEST(OffloadKeys, ADelayedUpdateNeedsUpdatesOnTheHostAndParametersOnTheDevice) {
  for (const std::string& text : {offloading("none", "none", R"("delayed_update": true)"),
                                  offloading("cpu", "cpu", R"("delayed_update": true)")}) {
    EXPECT_EQ(kinds_of_problems(text), (Lines{"warning no_effect zeroshard.delayed_update"}))
        << text;
  }
}

}  // namespace
}  // namespace zeroshard::config
