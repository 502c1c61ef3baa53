// Ranks and steps that take different branches still meet, and what had no gradient stays as it is.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"

namespace zeroshard::test {
namespace {

// Which of the branches a rank takes in a step.
using Choice = bool (*)(int step, int rank, int branch);

struct BranchNet : GraphNet {
  explicit BranchNet(Choice choose) : takes(choose) {
    first = register_module("first", Unit<BlockImpl>(6));
    for (int i = 0; i < 3; ++i) {
      branches.push_back(register_module("branch" + std::to_string(i), Unit<BlockImpl>(6)));
    }
    last = register_module("last", Unit<BlockImpl>(6));
  }
  torch::Tensor loss(int step, int rank) override {
    torch::Tensor x = first->forward(numbers({4, 6}, 10 * step + rank));
    for (int i = 0; i < 3; ++i) {
      if (takes(step, rank, i)) x = branches[static_cast<std::size_t>(i)]->forward(x);
    }
    return last->forward(x).square().mean();
  }
  Choice takes;
  Unit<BlockImpl> first{nullptr}, last{nullptr};
  std::vector<Unit<BlockImpl>> branches;
};

GraphRun run_of(Choice choose, int ranks) {
  return {
      .make = [choose] { return std::make_shared<BranchNet>(choose); }, .ranks = ranks, .steps = 6};
}

TEST(AbsentUnits, OnSomeRanks) {
  expect_stages_equal(run_of([](int, int rank, int branch) { return branch == rank; }, 2));
  expect_stages_equal(run_of([](int, int rank, int branch) { return branch != rank; }, 3));
}

TEST(AbsentUnits, OnSomeSteps) {
  expect_stages_equal(run_of([](int step, int, int branch) { return branch == step % 3; }, 2));
}

// After rank 0's order has been adopted, the others' branches are still in the plan.
TEST(AbsentUnits, OnOtherRanksAtOtherSteps) {
  const Choice choose = [](int step, int rank, int branch) {
    return (step * 7 + rank * 5 + branch * 3) % 4 < 2;
  };
  expect_stages_equal(run_of(choose, 2));
  expect_stages_equal(run_of(choose, 3));
}

// Many units that one rank uses and the other does not, with few buffers: neither may wait for what
// the other does only at the end.
struct AlternatingNet : GraphNet {
  AlternatingNet() {
    for (int i = 0; i < 12; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Unit<BlockImpl>(6)));
    }
  }
  torch::Tensor loss(int step, int rank) override {
    torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const bool mine = i / 4 % 2 == static_cast<std::size_t>((step + rank) % 2);
      if (mine || i == 6) x = blocks[i]->forward(x);
    }
    return x.square().mean();
  }
  std::vector<Unit<BlockImpl>> blocks;
};

TEST(AbsentUnits, InLongRunsWithAndWithoutOverlap) {
  const GraphRun run{.make = maker<AlternatingNet>(), .steps = 4};
  expect_stages_equal(run);
  EngineOptions options = graph_options(3);
  const GraphTrace expected = train_graph(run, 0);
  for (const bool overlap : {false, true}) {
    for (const std::int64_t prefetch_numel : {0, 100000}) {
      options.zero.overlap_comm = overlap;
      options.zero.prefetch_numel = prefetch_numel;
      EXPECT_EQ(difference(expected, train_graph(run, options)), "") << overlap;
    }
  }
}

TEST(AbsentUnits, WithAdamNeitherDecayNorMomentsMoveThem) {
  GraphRun run = run_of([](int step, int, int branch) { return branch == 0 && step < 2; }, 2);
  run.optimizer = AdamOptions{.lr = 1e-2, .weight_decay = 0.1};
  run.steps = 0;
  const GraphTrace start = train_graph(run, 3);
  run.steps = 2;
  const GraphTrace used = train_graph(run, 3);
  run.steps = 5;
  for (const int stage : {0, 1, 2, 3}) {
    const GraphTrace end = train_graph(run, stage);
    EXPECT_EQ(end.weights.at("branch0.up.weight"), used.weights.at("branch0.up.weight")) << stage;
    EXPECT_EQ(end.weights.at("branch1.up.weight"), start.weights.at("branch1.up.weight")) << stage;
    EXPECT_NE(end.weights.at("last.up.weight"), used.weights.at("last.up.weight")) << stage;
  }
}

TEST(AbsentUnits, AreNamed) {
  GraphRun run = run_of([](int, int rank, int branch) { return branch == rank; }, 2);
  run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    const auto& names = engine.core().without_gradient();
    EXPECT_EQ(names.size(), 6U);
    EXPECT_EQ(names.empty() ? "" : names[0].substr(0, 7), "branch2");
    return loss;
  };
  train_graph(run, 3);
}

// A rank that has nothing to compute at all brings zeros.
struct IdleNet : BranchNet {
  IdleNet() : BranchNet([](int, int, int) { return true; }) {}
  torch::Tensor loss(int step, int rank) override {
    return (step + rank) % 2 == 0 ? BranchNet::loss(step, rank) : torch::Tensor();
  }
};

TEST(AbsentUnits, AllOfThemOnOneRank) {
  expect_stages_equal({.make = maker<IdleNet>(), .steps = 4});
  expect_stages_equal({.make = maker<IdleNet>(), .ranks = 3, .steps = 4});
}

// The same with accumulation: a micro-step without a backward.
TEST(AbsentUnits, AllOfThemInOneMicroStep) {
  EngineOptions options = graph_options(0);
  options.accumulation_steps = 2;
  const GraphRun run{.make = maker<IdleNet>(), .steps = 4};
  const GraphTrace zero = train_graph(run, options);
  options.zero.stage = 1;
  EXPECT_EQ(difference(zero, train_graph(run, options)), "");
  options.zero.stage = 2;
  const GraphTrace two = train_graph(run, options);
  options.zero.stage = 3;
  EXPECT_EQ(difference(two, train_graph(run, options)), "");
  EXPECT_EQ(difference(zero, two, 1e-5), "");
}

}  // namespace
}  // namespace zeroshard::test
