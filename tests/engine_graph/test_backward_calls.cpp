// Several backwards in one step, backwards that autograd starts, evaluation at any time.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"

namespace zeroshard::test {
namespace {

struct StackNet : GraphNet {
  StackNet() {
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Unit<BlockImpl>(6)));
    }
    scale = register_parameter("scale", torch::ones({6}));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (auto& block : blocks) x = block->forward(x);
    return x * scale;
  }
  torch::Tensor loss(int step, int rank) override {
    return forward(numbers({4, 6}, 10 * step + rank).to(scale.dtype())).square().mean();
  }
  std::vector<Unit<BlockImpl>> blocks;
  torch::Tensor scale;
};

using TrainStep = std::function<torch::Tensor(GraphNet&, Engine&, int step, int rank)>;

GraphRun run_of(TrainStep train_step, int ranks = 2) {
  return {.make = maker<StackNet>(), .ranks = ranks, .steps = 4, .train_step = train_step};
}

torch::Tensor plain_step(GraphNet& net, Engine& engine, int step, int rank) {
  torch::Tensor loss = net.loss(step, rank);
  engine.backward(loss);
  engine.step();
  return loss;
}

void expect_equal(const GraphTrace& expected, const GraphRun& run) {
  for (const int stage : {0, 1, 2, 3}) {
    EXPECT_EQ(difference(expected, train_graph(run, stage)), "") << "stage " << stage;
  }
}

torch::Tensor two_backwards(GraphNet& net, Engine& engine, int step, int rank) {
  engine.backward(net.loss(step, rank));
  torch::Tensor loss = net.loss(step + 100, rank);
  engine.backward(loss);
  engine.step();
  return loss;
}

struct SumNet : StackNet {
  torch::Tensor loss(int step, int rank) override {
    return StackNet::loss(step, rank) + StackNet::loss(step + 100, rank);
  }
};

TEST(SeveralBackwards, BeforeAStepAddUp) {
  for (const int ranks : {1, 2, 3}) {
    const GraphTrace expected = train_graph(run_of(two_backwards, ranks), 0);
    expect_equal(expected, run_of(two_backwards, ranks));
    GraphTrace plain = train_plain({.make = maker<SumNet>(), .ranks = ranks, .steps = 4});
    plain.losses = expected.losses;  // which are of the second backward here
    EXPECT_EQ(difference(expected, plain, 2e-5), "");
  }
}

TEST(SeveralBackwards, AlsoInBf16) {
  GraphRun run = run_of(two_backwards);
  run.dtype = DType::bf16;
  expect_equal(train_graph(run, 0), run);
}

// Two graphs at once, differentiated one after the other.
TEST(SeveralBackwards, OfTwoForwardsMadeBefore) {
  const GraphRun run = run_of([](GraphNet& net, Engine& engine, int step, int rank) {
    const torch::Tensor first = net.loss(step, rank);
    torch::Tensor second = net.loss(step + 100, rank);
    engine.backward(first);
    engine.backward(second);
    engine.step();
    return second;
  });
  expect_equal(train_graph(run_of(two_backwards), 0), run);
}

TEST(ForeignBackward, IsNoticedByItsGradients) {
  const GraphRun run = run_of([](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    loss.backward();
    engine.step();
    return loss;
  });
  expect_equal(train_graph(run_of(plain_step), 0), run);
}

torch::Tensor evaluated(GraphNet& net, int step, int rank) {
  const torch::NoGradGuard no_grad;
  return net.loss(step, rank);
}

TEST(Evaluation, BetweenStepsChangesNothing) {
  const GraphRun run = run_of([](GraphNet& net, Engine& engine, int step, int rank) {
    for (int i = 0; i < 3; ++i) evaluated(net, 50 + i, rank);
    torch::Tensor loss = plain_step(net, engine, step, rank);
    evaluated(net, 60, rank);
    return loss;
  });
  expect_equal(train_graph(run_of(plain_step), 0), run);
}

TEST(Evaluation, BetweenForwardAndBackwardChangesNothing) {
  const GraphRun run = run_of([](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    EXPECT_TRUE(torch::equal(evaluated(net, step, rank), loss));
    engine.backward(loss);
    engine.step();
    return loss;
  });
  expect_equal(train_graph(run_of(plain_step), 0), run);
}

// A training forward without a backward leaves nothing behind: blocks reduce and go as they did.
TEST(Evaluation, WithGradientsEnabledChangesNothing) {
  const GraphRun run = run_of([](GraphNet& net, Engine& engine, int step, int rank) {
    net.loss(70, rank);
    torch::Tensor loss = plain_step(net, engine, step, rank);
    net.loss(80, rank);
    return loss;
  });
  expect_equal(train_graph(run_of(plain_step), 0), run);
}

}  // namespace
}  // namespace zeroshard::test
