// A user who calls backward() on a loss himself, and what `.grad` shows where it is asked for.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"
#include "zeroshard/base/error.h"

namespace zeroshard::test {
namespace {

constexpr int kMicroSteps = 4;

struct PairNet : GraphNet {
  PairNet() {
    for (int i = 0; i < 2; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Unit<BlockImpl>(6)));
    }
    scale = register_parameter("scale", torch::ones({6}));
  }
  // The last term reaches a parameter past all units.
  torch::Tensor loss(int step, int rank) override {
    torch::Tensor x = numbers({4, 6}, 10 * step + rank).to(scale.dtype());
    for (auto& block : blocks) x = block->forward(x);
    return (x * scale).square().mean() + scale.square().sum() / 16;
  }
  std::vector<Unit<BlockImpl>> blocks;
  torch::Tensor scale;
};

using Differentiate = std::function<void(Engine&, const torch::Tensor& loss)>;

GraphRun accumulating(const Differentiate& differentiate, DType dtype = DType::fp32) {
  GraphRun run{.make = maker<PairNet>(), .ranks = 2, .steps = 3, .dtype = dtype};
  run.train_step = [=](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss;
    for (int micro = 0; micro < kMicroSteps; ++micro) {
      loss = net.loss(kMicroSteps * step + micro, rank);
      differentiate(engine, loss);
      engine.step();
    }
    return loss;
  };
  return run;
}

EngineOptions accumulating_options(int stage) {
  EngineOptions options = graph_options(stage);
  options.accumulation_steps = kMicroSteps;
  return options;
}

void by_engine(Engine& engine, const torch::Tensor& loss) { engine.backward(loss); }
void by_torch(Engine& /*engine*/, const torch::Tensor& loss) { loss.backward(); }
void scaled(Engine& engine, const torch::Tensor& loss) { engine.scale(loss).backward(); }

TEST(OwnBackward, IsDividedByTheMicroStepsOfAStep) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      const EngineOptions options = accumulating_options(stage);
      const GraphTrace expected = train_graph(accumulating(by_engine, dtype), options);
      EXPECT_EQ(difference(expected, train_graph(accumulating(by_torch, dtype), options)), "");
      EXPECT_EQ(difference(expected, train_graph(accumulating(scaled, dtype), options)), "");
    }
  }
}

EngineOptions fp16_options(int stage) {
  EngineOptions options = accumulating_options(stage);
  options.precision.fp16 = {.enabled = true, .initial_scale_power = 10};
  return options;
}

TEST(OwnBackward, InFp16IsScaledOrRefused) {
  for (const int stage : {0, 1, 2, 3}) {
    const EngineOptions options = fp16_options(stage);
    const GraphTrace expected = train_graph(accumulating(by_engine), options);
    EXPECT_EQ(difference(expected, train_graph(accumulating(scaled), options)), "");
    // Refused before anything has changed: the micro-steps so far are not lost.
    const auto forgetful = [](Engine& engine, const torch::Tensor& loss) {
      try {
        loss.backward({}, /*keep_graph=*/true);
        ADD_FAILURE() << "an unscaled loss was differentiated";
      } catch (const StateError& error) {
        EXPECT_NE(std::string(error.what()).find("engine.scale(loss).backward()"),
                  std::string::npos);
      }
      scaled(engine, loss);
    };
    EXPECT_EQ(difference(expected, train_graph(accumulating(forgetful), options)), "");
  }
}

// What was only collected after a reduction is not lost to the next one.
TEST(OwnBackward, CollectedBetweenTwoReductionsIsReducedWithTheSecond) {
  const auto steps = [](const std::vector<bool>& boundaries) {
    GraphRun run{.make = maker<PairNet>(), .ranks = 2, .steps = 2};
    run.train_step = [=](GraphNet& net, Engine& engine, int step, int rank) {
      torch::Tensor loss;
      for (std::size_t i = 0; i < boundaries.size(); ++i) {
        engine.core().set_boundary(boundaries[i]);
        loss = net.loss(3 * step + static_cast<int>(i), rank);
        engine.backward(loss);
      }
      engine.step();
      return loss;
    };
    return run;
  };
  for (const int stage : {0, 1}) {
    const GraphTrace expected = train_graph(steps({false, false, true}), stage);
    EXPECT_EQ(difference(expected, train_graph(steps({true, false, true}), stage), 1e-5), "");
  }
}

EngineOptions showing(int stage) {
  EngineOptions options = graph_options(stage);
  options.shows_gradients = true;
  return options;
}

GraphRun looking(const std::function<void(GraphNet&, Engine&, int step)>& look) {
  GraphRun run{.make = maker<PairNet>(), .ranks = 2, .steps = 3};
  run.train_step = [=](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    look(net, engine, step);
    engine.step();
    for (const torch::Tensor& parameter : net.parameters())
      EXPECT_FALSE(parameter.grad().defined());
    return loss;
  };
  return run;
}

TEST(ShownGradients, AreThereWhereTheyAreReplicatedAndChangeNoBit) {
  for (const int stage : {0, 1, 2, 3}) {
    const GraphTrace expected = train_graph(looking([](GraphNet&, Engine&, int) {}), stage);
    const GraphRun shown = looking([=](GraphNet& net, Engine&, int) {
      for (const torch::Tensor& parameter : net.parameters()) {
        EXPECT_EQ(parameter.grad().defined(), stage == 0);
        if (stage != 0) continue;
        EXPECT_GT(parameter.grad().norm().item<float>(), 0.0F);
      }
    });
    EXPECT_EQ(difference(expected, train_graph(shown, showing(stage))), "");
  }
}

TEST(ShownGradients, WritesActOnTheStep) {
  const GraphTrace expected = train_graph(
      [] {
        GraphRun halved = looking([](GraphNet&, Engine&, int) {});
        halved.optimizer = SgdOptions{.lr = 0.05};
        return halved;
      }(),
      0);
  for (const bool in_place : {true, false}) {
    GraphRun run = looking([=](GraphNet& net, Engine&, int) {
      for (torch::Tensor parameter : net.parameters()) {
        in_place ? void(parameter.mutable_grad().mul_(0.5))
                 : void(parameter.mutable_grad() = parameter.grad() * 0.5);
      }
    });
    run.optimizer = SgdOptions{.lr = 0.1};
    EXPECT_EQ(difference(expected, train_graph(run, showing(0))), "");
  }
}

// Dropped, as `zero_grad` does: a parameter without a gradient is left alone, by its decay too.
TEST(ShownGradients, DroppedOnesAreNone) {
  GraphRun run = looking([](GraphNet& net, Engine&, int step) {
    if (step == 0) return;
    for (torch::Tensor parameter : net.parameters()) parameter.mutable_grad().reset();
  });
  GraphRun once = looking([](GraphNet&, Engine&, int) {});
  once.steps = 1;
  EXPECT_EQ(train_graph(run, showing(0)).weights, train_graph(once, showing(0)).weights);
}

}  // namespace
}  // namespace zeroshard::test
