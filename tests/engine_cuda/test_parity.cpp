// Streams and autograd's own thread hide faults on a CPU: the same promises on a GPU.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/engine/parity_run.h"
#include "tests/engine/random_plan.h"
#include "zeroshard/device/accelerators.h"

namespace zeroshard::test {
namespace {

constexpr Device kFirst{DeviceKind::cuda, 0};

class OnAccelerator : public testing::Test {
 protected:
  void SetUp() override {
    if (load_accelerators() == 0) {
      GTEST_SKIP() << "needs an accelerator: " << missing_reason(DeviceKind::cuda);
    }
  }
};

RunPlan one_rank(RunPlan plan, int stage) {
  plan.ranks = 1;
  plan.options.device = kFirst;
  plan.options.zero.stage = stage;
  return plan;
}

TEST_F(OnAccelerator, StagesAgree) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    RunPlan plan = with_random_placement(random_numbers(random), random);
    const int stage = plan.options.accumulation_steps > 1 ? 2 : 0;
    const Trace expected = train(one_rank(plan, stage));
    for (const int other : {stage + 1, stage == 0 ? 3 : 2}) {
      EXPECT_EQ(difference(expected, train(one_rank(plan, other))), "")
          << "seed " << seed << " stages " << stage << ", " << other << ": " << describe(plan);
    }
  }
}

// Kernels round differently, so this is near and not equal.
TEST_F(OnAccelerator, IsNearTheCpu) {
  RunPlan plan;
  plan.options.parameter_groups = {AdamOptions{.lr = 1e-3}};
  plan.options.threads = 1;
  const Trace on_device = train(one_rank(plan, 3));
  plan.options.zero.stage = 3;
  const Trace on_cpu = train(plan);
  for (std::size_t i = 0; i < on_cpu.losses.size(); ++i) {
    EXPECT_NEAR(on_device.losses[i], on_cpu.losses[i], 1e-3 * std::abs(on_cpu.losses[i])) << i;
  }
}

}  // namespace
}  // namespace zeroshard::test
