// What a caller may decide instead of the engine: where a step ends, how its masters are updated,
// what a released parameter looks like. The Python package decides all three.
#include <memory>

#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"
#include "zeroshard/base/error.h"

namespace zeroshard::test {
namespace {

struct TwoBlocks : GraphNet {
  TwoBlocks() {
    a = register_module("a", Unit<BlockImpl>(6));
    b = register_module("b", Unit<BlockImpl>(6));
    unused = register_module("unused", Unit<BlockImpl>(6));
    gain = register_parameter("gain", torch::ones({6}));
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = numbers({4, 6}, 10 * step + rank).to(gain.dtype());
    return (gain * b->forward(a->forward(x))).square().mean().to(torch::kFloat);
  }
  Unit<BlockImpl> a{nullptr}, b{nullptr}, unused{nullptr};
  torch::Tensor gain;
};

GraphRun two_blocks_run(std::function<torch::Tensor(GraphNet&, Engine&, int, int)> train_step) {
  return {.make = maker<TwoBlocks>(), .ranks = 2, .steps = 4, .train_step = std::move(train_step)};
}

EngineOptions in_two_parts(int stage) {
  EngineOptions options = graph_options(stage);
  options.accumulation_steps = 2;
  return options;
}

torch::Tensor counted(GraphNet& net, Engine& engine, int step, int rank) {
  engine.backward(net.loss(step, rank));
  EXPECT_FALSE(engine.step().boundary);
  torch::Tensor loss = net.loss(step + 100, rank);
  engine.backward(loss);
  EXPECT_TRUE(engine.step().boundary);
  return loss;
}

// One step() for two backwards, as accelerate does it.
torch::Tensor said_by_caller(GraphNet& net, Engine& engine, int step, int rank) {
  Core& core = engine.core();
  core.set_boundary(false);
  core.backward(net.loss(step, rank));
  core.set_boundary(true);
  torch::Tensor loss = net.loss(step + 100, rank);
  core.backward(loss);
  EXPECT_TRUE(engine.step().boundary);
  return loss;
}

// Only after both backwards the caller says that the step ends: nothing was reduced by then.
torch::Tensor said_late(GraphNet& net, Engine& engine, int step, int rank) {
  Core& core = engine.core();
  core.set_boundary(false);
  core.backward(net.loss(step, rank));
  torch::Tensor loss = net.loss(step + 100, rank);
  core.backward(loss);
  core.set_boundary(true);
  EXPECT_TRUE(engine.step().boundary);
  return loss;
}

// The loss is a part of the step's already, as HuggingFace's Trainer has it.
torch::Tensor averaged_by_caller(GraphNet& net, Engine& engine, int step, int rank) {
  Core& core = engine.core();
  core.backward(net.loss(step, rank) / 2, {.averages = false});
  engine.step();
  const torch::Tensor loss = net.loss(step + 100, rank);
  core.backward(loss / 2, {.averages = false});
  engine.step();
  return loss;
}

TEST(Boundary, SaidByTheCallerIsTheCountedOne) {
  for (const int stage : {0, 1, 2, 3}) {
    const GraphTrace expected = train_graph(two_blocks_run(counted), in_two_parts(stage));
    EXPECT_EQ(
        difference(expected, train_graph(two_blocks_run(said_by_caller), in_two_parts(stage))), "");
    EXPECT_EQ(
        difference(expected, train_graph(two_blocks_run(averaged_by_caller), in_two_parts(stage))),
        "");
    EXPECT_EQ(difference(expected, train_graph(two_blocks_run(said_late), in_two_parts(stage))),
              "");
  }
}

TEST(Boundary, DoesNotChangeItsDistanceWithinAStep) {
  const auto changes = [](GraphNet& net, Engine& engine, int step, int rank) {
    const torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    EXPECT_THROW(engine.core().set_accumulation_steps(3), StateError);
    engine.backward(net.loss(step + 100, rank));
    engine.step();
    EXPECT_THROW(engine.core().set_accumulation_steps(0), ConfigError);
    return loss;
  };
  train_graph(two_blocks_run(changes), in_two_parts(2));
}

TEST(Boundary, MayChangeItsDistance) {
  const auto longer = [](GraphNet& net, Engine& engine, int step, int rank) {
    engine.core().set_accumulation_steps(2);
    return counted(net, engine, step, rank);
  };
  EXPECT_EQ(difference(train_graph(two_blocks_run(counted), in_two_parts(0)),
                       train_graph(two_blocks_run(longer), graph_options(0))),
            "");
}

// A kept graph, differentiated twice, gives its gradient twice.
TEST(Boundary, AKeptGraphIsDifferentiatedAgain) {
  const auto twice = [](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    engine.core().backward(loss, {.keeps_graph = true});
    engine.core().backward(loss);
    engine.step();
    return loss;
  };
  const auto doubled = [](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(2 * loss);
    engine.step();
    return loss;
  };
  const GraphTrace expected = train_graph(two_blocks_run(doubled), 0);
  for (const int stage : {0, 1, 2, 3}) {
    EXPECT_EQ(difference(expected, train_graph(two_blocks_run(twice), stage), 1e-6), "") << stage;
  }
}

torch::Tensor one_plain_step(GraphNet& net, Engine& engine, int step, int rank) {
  torch::Tensor loss = net.loss(step, rank);
  engine.backward(loss);
  engine.step();
  return loss;
}

// The engine that this thread's rank steps: ranks are threads here, and share the options.
thread_local Core* stepping = nullptr;

// Gradient descent, by a caller that has nothing but flat masters and gradients.
void descend(const std::vector<at::Tensor>& gradients) {
  const auto& segments = stepping->master_segments();
  ASSERT_EQ(segments.size(), gradients.size());
  EXPECT_EQ(stepping->memory().bytes(Category::moments, Tier::device), 0);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const bool is_used = stepping->unit(segments[i].unit).name() != "unused";
    EXPECT_EQ(gradients[i].defined(), is_used);
    if (is_used) segments[i].master.sub_(gradients[i], 0.1);
  }
}

TEST(CallersUpdate, OfMastersIsThatOfOurKernel) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    GraphRun run = two_blocks_run(one_plain_step);
    run.dtype = dtype;
    run.optimizer = SgdOptions{.lr = 0.1};
    const GraphTrace expected = train_graph(run, 0);
    run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
      stepping = &engine.core();
      return one_plain_step(net, engine, step, rank);
    };
    for (const int stage : {0, 1, 2, 3}) {
      EngineOptions options = graph_options(stage);
      options.update = descend;
      const double bound = dtype == DType::fp32 ? 1e-6 : 1e-2;  // one rounding of a weight
      EXPECT_EQ(difference(expected, train_graph(run, options), bound), "") << stage;
    }
  }
}

TEST(ReleasedParameter, HasNoElementsWhereTheCallerWantsThat) {
  EngineOptions options = graph_options(3);
  options.empties_released = true;
  const GraphRun run = two_blocks_run([](GraphNet& net, Engine& engine, int step, int rank) {
    auto& two = dynamic_cast<TwoBlocks&>(net);
    EXPECT_EQ(two.a->up->weight.numel(), 0);
    EXPECT_EQ(two.gain.numel(), 6);  // of the root, which is never released
    torch::Tensor loss = one_plain_step(net, engine, step, rank);
    EXPECT_EQ(two.a->up->weight.numel(), 0);
    const auto scope = engine.full_params();
    EXPECT_EQ(two.a->up->weight.dim(), 2);
    return loss;
  });
  EXPECT_EQ(difference(train_graph(two_blocks_run(one_plain_step), 0), train_graph(run, options)),
            "");
}

}  // namespace
}  // namespace zeroshard::test
