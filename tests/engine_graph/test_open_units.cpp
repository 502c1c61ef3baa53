// Units in mid-model of which no input needs a gradient, such as the first of a second tower:
// nothing in the graph tells when their backward is over, and other ranks wait for it.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"

namespace zeroshard::test {
namespace {

constexpr std::size_t kBlocks = 4;

// A first unit may hold frozen weights behind its trainable ones.
enum class Freeze { nothing, first_up };

struct TowersNet : GraphNet {
  explicit TowersNet(Freeze freeze = Freeze::nothing) {
    for (auto* tower : {&text, &image, &joint}) {
      const std::string name = tower == &text ? "text" : tower == &image ? "image" : "joint";
      for (std::size_t i = 0; i < kBlocks; ++i) {
        tower->push_back(register_module(name + std::to_string(i), Unit<BlockImpl>(6)));
      }
    }
    if (freeze == Freeze::first_up) image[0]->up->weight.requires_grad_(false);
  }
  torch::Tensor loss(int step, int rank) override {
    torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    for (auto& unit : text) x = unit->forward(x);
    if ((step + rank) % 2 == 0) {
      torch::Tensor seen = numbers({4, 6}, 100 + 10 * step + rank);
      for (auto& unit : image) seen = unit->forward(seen);
      x = x + seen;
    }
    for (auto& unit : joint) x = unit->forward(x);
    return x.square().mean();
  }
  std::vector<Unit<BlockImpl>> text, image, joint;
};

GraphRun towers(int ranks, Freeze freeze = Freeze::nothing) {
  return {
      .make = [freeze] { return std::make_shared<TowersNet>(freeze); }, .ranks = ranks, .steps = 5};
}

TEST(OpenUnits, OnSomeRanksOnly) {
  expect_stages_equal(towers(2));
  expect_stages_equal(towers(3));
}

// Small units that are never released are not gathered, and others wait for their gradients too.
TEST(OpenUnits, AmongPersistentUnits) {
  for (const Freeze freeze : {Freeze::nothing, Freeze::first_up}) {
    const GraphRun run = towers(2, freeze);
    const GraphTrace expected = train_graph(run, 0);
    EngineOptions options = graph_options(3);
    options.zero.persistence_numel = 100000;
    for (const std::int64_t in_all : {1000, 2000}) {
      options.zero.model_persistence_numel = in_all;
      EXPECT_EQ(difference(expected, train_graph(run, options)), "") << in_all;
    }
  }
}

TEST(OpenUnits, WithFrozenParameters) { expect_stages_equal(towers(2, Freeze::first_up)); }

TEST(OpenUnits, WithAndWithoutOverlapAndPrefetch) {
  const GraphRun run = towers(2);
  const GraphTrace expected = train_graph(run, 0);
  EngineOptions options = graph_options(3);
  for (const bool overlap : {false, true}) {
    for (const std::int64_t prefetch_numel : {0, 100000}) {
      options.zero.overlap_comm = overlap;
      options.zero.prefetch_numel = prefetch_numel;
      EXPECT_EQ(difference(expected, train_graph(run, options)), "") << overlap;
    }
  }
}

// No more memory than without a second tower's first unit: neither buckets nor full units pile up.
TEST(OpenUnits, NeedNoMoreMemoryThanThePlan) {
  GraphRun run = towers(2);
  run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
    if (step == 0) engine.core().memory().forget_peaks();
    const std::int64_t before = engine.core().memory().total(Tier::device);
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    EXPECT_EQ(engine.core().memory().peak_total(Tier::device), before) << "step " << step;
    return loss;
  };
  train_graph(run, 3);
}

}  // namespace
}  // namespace zeroshard::test
