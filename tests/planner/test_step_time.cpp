// How long a step takes: each part by itself, what hides behind what, and what is waited for.
#include <cmath>

#include <gtest/gtest.h>

#include "zeroshard/planner/step_time.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kParameters = 1'000'000;

// A device of round numbers, on which nothing takes time that a test does not ask for.
struct Machine {
  Rates rates{.product_flops_16 = {1e12},
              .product_flops_32 = {1e12},
              .device_bytes = {1e18},
              .host_update_bytes = {1e18},
              .copy_down_bytes = {1e18},
              .copy_up_bytes = {1e18},
              .near_bytes = {1e18},
              .far_bytes = {1e18}};
  FootprintOptions options;
  int ranks = 2;
  int ranks_per_node = 2;
  double flops = 0;  // of forward, in four equal units

  Machine() {
    options.precision.bf16.enabled = true;
    options.zero.stage = 2;
    options.zero.overlap_comm = true;
    options.zero.reduce_bucket_numel = 0;  // a bucket for each unit
    options.accelerator = true;
  }

  StepEstimate step() const {
    const ModelLayout model = equal_units(kParameters, 4, DType::bf16, ranks);
    ModelActivations activations;
    for (std::size_t unit = 0; unit < 4; ++unit) {
      activations.uses.push_back({.unit = unit,
                                  .forward_work = {.product_flops = flops / 4},
                                  .backward_work = {.product_flops = 2 * flops / 4}});
    }
    return step_time({.model = model,
                      .options = options,
                      .activations = activations,
                      .rates = rates,
                      .ranks_per_node = ranks_per_node});
  }
};

constexpr double kNear = 1e-9;

TEST(StepTime, ComputationIsTheDevicesAlone) {
  Machine machine;
  machine.flops = 1e10;
  const StepEstimate time = machine.step();
  EXPECT_NEAR(time.forward, 0.01, kNear);
  EXPECT_NEAR(time.backward, 0.02, kNear);
  EXPECT_NEAR(time.step, 0.03, kNear);
  EXPECT_EQ(time.bottleneck(1), Bottleneck::compute);
}

TEST(StepTime, EachMicroStepComputesAgain) {
  Machine machine;
  machine.flops = 1e10;
  machine.options.micro_steps = 4;
  EXPECT_NEAR(machine.step().step, 4 * 0.03, kNear);
}

TEST(StepTime, OperatorsBeginBesideWorkOnAnAcceleratorOnly) {
  Machine machine;
  machine.flops = 1e10;
  machine.rates.operator_seconds = {0.004};
  const ModelLayout model = equal_units(kParameters, 4, DType::bf16, 1);
  UnitActivations use;
  use.forward_work = {.product_flops = 1e10, .operators = 1};
  const ModelActivations activations{.uses = {use}};
  const auto forward = [&](bool accelerator) {
    machine.options.accelerator = accelerator;
    return step_time({.model = model,
                      .options = machine.options,
                      .activations = activations,
                      .rates = machine.rates})
        .forward;
  };
  EXPECT_NEAR(forward(true), 0.01, kNear);
  EXPECT_NEAR(forward(false), 0.014, kNear);
}

// Stage 2 sends each gradient and each parameter once, but for a rank's own half.
TEST(StepTime, TheNetworkHidesBehindComputationWhereItIsOverlapped) {
  Machine machine;
  machine.flops = 1e10;
  machine.rates.near_bytes = {2e6 / 0.01};
  StepEstimate time = machine.step();
  EXPECT_NEAR(time.network, 0.01, 1e-4);
  const double each = time.network / 8;
  EXPECT_NEAR(time.step, 0.03 + 2 * each, kNear) << "all but the first gather and the last sum";
  EXPECT_NEAR(time.exposed, 2 * each, kNear);
  machine.options.zero.overlap_comm = false;
  time = machine.step();
  EXPECT_NEAR(time.step, 0.03 + time.network, kNear);
  EXPECT_NEAR(time.exposed, time.network, kNear);
}

TEST(StepTime, ASlowNetworkIsWhatAStepWaitsFor) {
  Machine machine;
  machine.flops = 1e10;
  machine.rates.near_bytes = {2e6 / 0.5};
  const StepEstimate time = machine.step();
  const double between = 0.01 / 4 + 0.02 / 4;  // the last unit forward, and it again backward
  EXPECT_NEAR(time.step, time.network + between, kNear);
  EXPECT_EQ(time.bottleneck(1), Bottleneck::network);
}

TEST(StepTime, BetweenHostsTheSlowerLinkCounts) {
  Machine machine;
  machine.rates.far_bytes = {1e8};
  EXPECT_LT(machine.step().network, 1e-6);
  machine.ranks_per_node = 1;
  const double far = machine.step().network;
  EXPECT_NEAR(far, 0.02, 1e-4);
  machine.rates.near_bytes = {5e7};
  EXPECT_NEAR(machine.step().network, 2 * far, 1e-4) << "a host's own is slower still";
}

TEST(StepTime, OneRankSendsNothing) {
  Machine machine;
  machine.ranks = 1;
  machine.rates.near_bytes = {1};
  machine.rates.collective_seconds = {1};
  EXPECT_EQ(machine.step().network, 0);
}

TEST(StepTime, EachCollectiveBegins) {
  Machine machine;
  machine.rates.collective_seconds = {0.001};
  machine.options.zero.reduce_bucket_numel = 50'000'000;
  EXPECT_NEAR(machine.step().network, 0.006, 1e-6) << "one bucket, four units, and the norm";
}

// Half a million elements are updated: 4 bytes of G, 24 of states, 2 of the parameter.
TEST(StepTime, UpdatesAreWhereTheStatesLie) {
  Machine machine;
  machine.rates.device_bytes = {1e9};
  const double on_device = machine.step().update;
  EXPECT_NEAR(on_device, 0.5e6 * 30 / 1e9, 1e-5);
  EXPECT_EQ(machine.step().host, 0);
  machine.options.offload.optimizer = Tier::host;
  machine.rates.host_update_bytes = {1e8};
  const StepEstimate time = machine.step();
  EXPECT_EQ(time.update, 0);
  EXPECT_NEAR(time.host, 10 * on_device, 1e-5);
  EXPECT_EQ(time.bottleneck(1), Bottleneck::host);
}

// The host updates while the device goes forward: only what is longer is waited for.
TEST(StepTime, TheHostsUpdateHidesBehindForward) {
  Machine machine;
  machine.flops = 1e10;
  machine.options.offload.optimizer = Tier::host;
  machine.rates.host_update_bytes = {0.5e6 * 30 / 0.004};
  StepEstimate time = machine.step();
  EXPECT_NEAR(time.host, 0.004, 1e-5);
  EXPECT_NEAR(time.step, 0.03, 1e-5) << "forward takes 0.01";
  machine.rates.host_update_bytes = {0.5e6 * 30 / 0.1};
  time = machine.step();
  EXPECT_NEAR(time.step, 0.02 + 0.1, 1e-4) << "backward, then the host";
}

TEST(StepTime, GradientsGoDownBesideBackward) {
  Machine machine;
  machine.flops = 1e10;
  machine.options.offload.optimizer = Tier::host;
  machine.rates.copy_down_bytes = {1e6 / 0.01};
  EXPECT_NEAR(machine.step().step, 0.03, 1e-5);
  machine.rates.copy_down_bytes = {1e6 / 0.2};
  const StepEstimate time = machine.step();
  EXPECT_NEAR(time.copies, 0.2, 1e-3);
  EXPECT_NEAR(time.step, 0.01 + 0.2, 1e-3);
  EXPECT_EQ(time.bottleneck(1), Bottleneck::copies);
}

// Shards on the host go up for each forward and each backward.
TEST(StepTime, ShardsOnTheHostGoUpTwiceAMicroStep) {
  Machine machine;
  machine.options.zero.stage = 3;
  machine.options.offload.parameters = Tier::host;
  machine.options.micro_steps = 3;
  machine.rates.copy_up_bytes = {1e6};
  EXPECT_NEAR(machine.step().copies, 3 * 2 * 1.0, 1e-2);
}

TEST(StepTime, TheNetworkIsKnownWithoutTheComputation) {
  Machine machine;
  machine.rates.near_bytes = {1e8};
  const ModelLayout model = equal_units(kParameters, 4, DType::bf16, machine.ranks);
  const ModelActivations none;
  const double alone = network_seconds({.model = model,
                                        .options = machine.options,
                                        .activations = none,
                                        .rates = machine.rates,
                                        .ranks_per_node = 2});
  EXPECT_DOUBLE_EQ(alone, machine.step().network);
  EXPECT_GT(alone, 0.01);
}

}  // namespace
}  // namespace zeroshard
