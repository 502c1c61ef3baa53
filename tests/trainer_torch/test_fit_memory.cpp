// Every rank hears the same of memory that is too small, and one of them says it.
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/setup/fit_memory.h"

namespace zeroshard {
namespace {

FootprintOptions on_host() {
  FootprintOptions options;
  options.zero.stage = 2;
  options.precision.bf16.enabled = true;
  options.offload.optimizer = Tier::host;
  return options;
}

// What each of three ranks is told; empty where it may go on.
std::vector<std::string> told(const ModelLayout& model, const FootprintOptions& options,
                              FittedMemory* fitted = nullptr) {
  std::vector<std::string> all(3);
  run_ranks(3, {}, [&](Communicator& comm) {
    std::string& mine = all[static_cast<std::size_t>(comm.rank())];
    try {
      const FittedMemory fits = fit_memory(model, options, 0, comm);
      if (fitted != nullptr && comm.rank() == 0) *fitted = fits;
    } catch (const PeerError&) {
      mine = "a peer says it";
    } catch (const Error& error) {
      mine = error.what();
    }
  });
  return all;
}

TEST(FitMemory, WhatFitsGoesOnWithItsPlan) {
  FittedMemory fitted;
  const ModelLayout model = equal_units(3 * 6400, 3, DType::bf16, 3);
  EXPECT_EQ(told(model, on_host(), &fitted), (std::vector<std::string>{"", "", ""}));
  EXPECT_EQ(fitted.first_host_unit, std::nullopt);
  EXPECT_EQ(fitted.host_state_bytes, footprint(model, on_host()).states(Tier::host));
  EXPECT_GT(fitted.host_state_bytes, 0);
}

TEST(FitMemory, WhatTheHostHasNotIsSaidOnce) {
  const auto all = told(equal_units(1'000'000'000'000'000, 32, DType::bf16, 3), on_host());
  EXPECT_NE(all[0].find("[storage] the plan puts more on the host than it has memory for: "),
            std::string::npos)
      << all[0];
  EXPECT_NE(all[0].find("for each of 3 ranks"), std::string::npos) << all[0];
  EXPECT_EQ(all[1], "a peer says it");
  EXPECT_EQ(all[2], "a peer says it");
}

TEST(FitMemory, ABudgetDecidesAndIsRefusedOnce) {
  FittedMemory fitted;
  const ModelLayout model = equal_units(3 * 6400, 3, DType::bf16, 3);
  FootprintOptions options = on_host();
  options.zero.device_budget_bytes = 1 << 30;
  EXPECT_EQ(told(model, options, &fitted), (std::vector<std::string>{"", "", ""}));
  EXPECT_EQ(fitted.first_host_unit, 3U);
  EXPECT_EQ(fitted.host_state_bytes, 0);
  options.zero.device_budget_bytes = 1;
  const auto all = told(model, options);
  EXPECT_NE(all[0].find("[config] zeroshard.device_budget is less"), std::string::npos) << all[0];
  EXPECT_EQ(all[1], "a peer says it");
}

}  // namespace
}  // namespace zeroshard
