// The order in which units are used is seen once and planned from then on: no gather is for
// nothing.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"

namespace zeroshard::test {
namespace {

struct ShuffledNet : GraphNet {
  ShuffledNet() {
    for (int i = 0; i < 4; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Unit<BlockImpl>(6)));
    }
  }
  torch::Tensor run(torch::Tensor x, const std::vector<std::size_t>& through) {
    for (const std::size_t i : through) x = blocks[i]->forward(x);
    return x;
  }
  torch::Tensor loss(int step, int rank) override {
    return run(numbers({4, 6}, 10 * step + rank), order).square().mean();
  }
  std::vector<std::size_t> order = {2, 0, 3, 1};
  std::vector<Unit<BlockImpl>> blocks;
};

struct RepeatingNet : ShuffledNet {
  RepeatingNet() { order = {2, 0, 2, 3, 1, 2}; }
};

// The checkpointed unit computes a nested one again.
struct OuterImpl : torch::nn::Module {
  OuterImpl() { inner = register_module("inner", Unit<BlockImpl>(6)); }
  torch::Tensor forward(torch::Tensor x) { return gain * inner->forward(x); }
  torch::Tensor gain = register_parameter("gain", torch::ones({6}));
  Unit<BlockImpl> inner{nullptr};
};

struct NestedOrderNet : GraphNet {
  NestedOrderNet() {
    for (const char* name : {"b", "a", "c"}) {
      units.push_back(register_module(name, Unit<OuterImpl>()));
      units.back()->checkpoint_activations();
    }
  }
  torch::Tensor loss(int step, int rank) override {
    torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    for (const std::size_t i : {1, 0, 2}) x = units[i]->forward(x);
    return x.square().mean();
  }
  std::vector<Unit<OuterImpl>> units;
};

using Counts = std::map<std::string, std::int64_t>;

// How often each unit was gathered in the last of some steps, by rank 0.
Counts gathers_of(GraphRun run, std::int64_t prefetch_numel, int evaluations = 0) {
  Counts counts;
  run.train_step = [&](GraphNet& net, Engine& engine, int step, int rank) {
    engine.core().traffic().clear();
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    for (int i = 0; i < evaluations; ++i) {
      const torch::NoGradGuard no_grad;
      net.loss(20 + i, rank);
    }
    engine.finish();
    if (rank != 0 || step + 1 < run.steps) return loss;
    for (const auto& [key, entry] : engine.core().traffic().entries()) {
      if (key.first == Operation::all_gather) counts[key.second] = entry.calls;
    }
    return loss;
  };
  EngineOptions options = graph_options(3);
  options.zero.prefetch_numel = prefetch_numel;
  train_graph(run, options);
  counts.erase("norm");
  counts.erase("root");
  return counts;
}

TEST(ObservedOrder, IsAdoptedSoThatEveryGatherIsUsed) {
  const Counts expected{{"block0", 2}, {"block1", 2}, {"block2", 2}, {"block3", 2}};
  for (const std::int64_t prefetch_numel : {0, 200, 100000}) {
    EXPECT_EQ(gathers_of({.make = maker<ShuffledNet>()}, prefetch_numel), expected)
        << prefetch_numel;
  }
  expect_stages_equal({.make = maker<ShuffledNet>()});
}

// In forward a unit is gathered for each use, in backward it stays from the first to the last.
TEST(ObservedOrder, CountsRepeatedUses) {
  const Counts expected{{"block0", 2}, {"block1", 2}, {"block2", 4}, {"block3", 2}};
  EXPECT_EQ(gathers_of({.make = maker<RepeatingNet>()}, 0), expected);
  EXPECT_EQ(gathers_of({.make = maker<RepeatingNet>()}, 200), expected);
}

TEST(ObservedOrder, KnowsUnitsInsideCheckpointedOnes) {
  const Counts expected{{"a", 2},       {"a.inner", 2}, {"b", 2},
                        {"b.inner", 2}, {"c", 2},       {"c.inner", 2}};
  for (const std::int64_t prefetch_numel : {0, 200, 100000}) {
    EXPECT_EQ(gathers_of({.make = maker<NestedOrderNet>()}, prefetch_numel), expected)
        << prefetch_numel;
  }
}

TEST(ObservedOrder, IsEvaluationsToo) {
  const Counts expected{{"block0", 5}, {"block1", 5}, {"block2", 5}, {"block3", 5}};
  EXPECT_EQ(gathers_of({.make = maker<ShuffledNet>()}, 200, 3), expected);
}

// After an exception the order is what it was.
TEST(ObservedOrder, SurvivesAForwardThatFails) {
  struct FailingNet : ShuffledNet {
    torch::Tensor loss(int step, int rank) override {
      const torch::Tensor x = numbers({4, 6}, 10 * step + rank);
      try {
        if (step == 1)
          blocks[0]->call([](torch::Tensor) -> torch::Tensor { throw 1; }, run(x, {2}));
      } catch (int) {
      }
      return run(x, order).square().mean();
    }
  };
  const Counts expected{{"block0", 2}, {"block1", 2}, {"block2", 2}, {"block3", 2}};
  EXPECT_EQ(gathers_of({.make = maker<FailingNet>()}, 200), expected);
}

}  // namespace
}  // namespace zeroshard::test
