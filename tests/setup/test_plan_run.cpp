// What a run chooses where its configuration says "auto", and what of the file it leaves alone.
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/setup/plan_run.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kMB = 1'000'000;

// 32 million parameters in bf16 on two ranks: 64 MB, and with all of Adam's states 256 and more.
struct AutoRun {
  explicit AutoRun(const std::string& config) : read(config::read_config(config)) {
    EXPECT_FALSE(read.report.has_errors());
  }
  std::string settle(const MemoryLimits& limits) {
    PlanSubject subject =
        plan_subject(read, *model, {.ranks = 2, .ranks_per_node = 2, .on_accelerator = true});
    subject.overheads = {};
    return settle_variant(read, VariantPlanner(std::move(subject)), limits);
  }
  Variant taken() const { return configured_variant(read.config); }

  std::unique_ptr<PlannedModel> model = counted_model(32 * kMB, {.units = 32});
  config::ReadResult read;
};

std::string with_zero(const std::string& zero, const std::string& more = "") {
  return R"({"bf16": {"enabled": true}, "zero_optimization": {"reduce_bucket_size": 1000000,
      "stage3_prefetch_bucket_size": 0, "stage3_param_persistence_threshold": 0, )" +
         zero + "}" + more + "}";
}

constexpr const char* kBothOnHost =
    R"("stage": "auto", "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"})";

TEST(PlanRun, AStageIsChosenWithTheOffloadThatIsGiven) {
  AutoRun roomy(with_zero(kBothOnHost));
  roomy.settle({.device = 200 * kMB});
  EXPECT_EQ(roomy.taken(), (Variant{2, true, false}));
  AutoRun tight(with_zero(kBothOnHost));
  const std::string words = tight.settle({.device = 20 * kMB});
  EXPECT_EQ(tight.taken(), (Variant{3, true, true})) << words;
}

TEST(PlanRun, WhatIsGivenOfParametersCountsWhileTheOptimizerIsChosen) {
  const std::string given =
      R"("stage": 3, "offload_optimizer": {"device": "auto"}, "offload_param": {"device": "cpu"})";
  AutoRun roomy(with_zero(given));
  const std::string words = roomy.settle({.device = 400 * kMB});
  EXPECT_EQ(roomy.taken(), (Variant{3, false, true}));
  EXPECT_NE(words.find("stage 3 + offload_param: "), std::string::npos) << words;
  AutoRun tight(with_zero(given));
  tight.settle({.device = 20 * kMB});
  EXPECT_EQ(tight.taken(), (Variant{3, true, true}));
}

TEST(PlanRun, ParametersThatShallStayOnTheDeviceStay) {
  AutoRun run(with_zero(R"("stage": "auto", "offload_optimizer": {"device": "auto"},
                           "offload_param": {"device": "none"})"));
  EXPECT_THROW(run.settle({.device = 20 * kMB}), ConfigError);
  AutoRun open(with_zero(R"("stage": "auto", "offload_optimizer": {"device": "auto"})"));
  open.settle({.device = 20 * kMB});
  EXPECT_EQ(open.taken(), (Variant{3, true, true}));
}

// 64 MB of parameters and 32 MB of G: a third of the 192 MB of master and moments has room.
TEST(PlanRun, ADeviceBudgetCountsInWhatAutoChooses) {
  const std::string open = R"("stage": "auto", "offload_optimizer": {"device": "auto"})";
  AutoRun run(with_zero(open, R"(, "zeroshard": {"device_budget": "150MB"})"));
  const std::string words = run.settle({.device = 1000 * kMB});
  EXPECT_EQ(run.taken().stage, 2) << words;
  AutoRun small(with_zero(open, R"(, "zeroshard": {"device_budget": "50MB"})"));
  const std::string reason = small.settle({.device = 1000 * kMB});
  EXPECT_EQ(small.taken().stage, 3) << "stage 2 has 64 MB of parameters: " << reason;
  EXPECT_NE(reason.find("zeroshard.device_budget is less"), std::string::npos) << reason;
  AutoRun least(with_zero(open, R"(, "zeroshard": {"device_budget": "1MB"})"));
  EXPECT_THROW(least.settle({.device = 1000 * kMB}), ConfigError);
}

TEST(PlanRun, AHostBudgetCountsInWhatAutoChooses) {
  const std::string open = R"("stage": "auto", "offload_optimizer": {"device": "auto"})";
  const MemoryLimits limits{.device = 240 * kMB, .host = 1000 * kMB};
  AutoRun roomy(with_zero(open, R"(, "zeroshard": {"host_budget": "400MB"})"));
  roomy.settle(limits);
  EXPECT_EQ(roomy.taken(), (Variant{2, true, false}));
  AutoRun small(with_zero(open, R"(, "zeroshard": {"host_budget": "100MB"})"));
  const std::string words = small.settle(limits);
  EXPECT_EQ(small.taken(), (Variant{3, false, false})) << words;
  EXPECT_NE(words.find("zeroshard.host_budget is less"), std::string::npos) << words;
}

}  // namespace
}  // namespace zeroshard
