// Graphs that are kept and never differentiated, or differentiated late: they change nothing for
// the backwards of others, and stage 3 keeps no unit gathered for them.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"
#include "zeroshard/base/error.h"

namespace zeroshard::test {
namespace {

struct ChainNet : GraphNet {
  ChainNet() {
    for (int i = 0; i < 8; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Unit<BlockImpl>(6)));
    }
  }
  torch::Tensor loss(int step, int rank) override {
    torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    for (auto& block : blocks) x = block->forward(x);
    return x.square().mean();
  }
  std::vector<Unit<BlockImpl>> blocks;
};

using KeepsGraph = bool (*)(int step, int rank);

// A validation forward with gradients on before each step; some ranks put its loss into a list.
GraphRun validating(KeepsGraph keeps) {
  GraphRun run{.make = maker<ChainNet>(), .steps = 4};
  run.train_step = [keeps](GraphNet& net, Engine& engine, int step, int rank) {
    static thread_local std::vector<torch::Tensor> kept;
    if (step == 0) kept.clear();
    const torch::Tensor validated = net.loss(step + 100, rank);
    if (keeps(step, rank)) kept.push_back(validated);
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    return loss;
  };
  return run;
}

GraphRun without_validation() {
  GraphRun run{.make = maker<ChainNet>(), .steps = 4};
  run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    return loss;
  };
  return run;
}

void expect_same_as_without(const GraphRun& run) {
  for (int stage = 0; stage <= 3; ++stage) {
    const GraphTrace expected = train_graph(without_validation(), stage);
    EXPECT_EQ(difference(train_graph(run, stage), expected), "") << "stage " << stage;
  }
}

TEST(KeptGraphs, OfOneRank) {
  expect_same_as_without(validating([](int, int rank) { return rank == 0; }));
}

TEST(KeptGraphs, OfAllRanks) {
  expect_same_as_without(validating([](int, int) { return true; }));
}

TEST(KeptGraphs, OfRanksInTurn) {
  expect_same_as_without(validating([](int step, int rank) { return step % 2 == rank; }));
}

// The most that gathered units and buckets have taken in a run, in bytes.
std::int64_t peak_buffers(GraphRun run) {
  std::atomic<std::int64_t> peak = 0;
  const auto train_step = run.train_step;
  run.train_step = [&, train_step](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = train_step(net, engine, step, rank);
    if (rank == 0) peak = engine.core().memory().peak(Category::buffers, Tier::device);
    return loss;
  };
  train_graph(run, 3);
  return peak;
}

TEST(KeptGraphs, TakeNoBuffers) {
  EXPECT_EQ(peak_buffers(validating([](int, int) { return true; })),
            peak_buffers(without_validation()));
}

// Two forwards, then two backwards: each backward lets its units go one by one.
GraphRun two_and_two(bool second_first) {
  GraphRun run{.make = maker<ChainNet>(), .steps = 3};
  run.train_step = [second_first](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor first = net.loss(step, rank);
    torch::Tensor second = net.loss(step + 50, rank);
    engine.backward(second_first ? second : first);
    engine.backward(second_first ? first : second);
    engine.step();
    return first;
  };
  return run;
}

TEST(KeptGraphs, TwoForwardsThenTwoBackwards) {
  for (const bool second_first : {false, true}) {
    const GraphTrace expected = train_graph(two_and_two(second_first), 0);
    for (int stage = 1; stage <= 3; ++stage) {
      EXPECT_EQ(difference(train_graph(two_and_two(second_first), stage), expected), "")
          << "stage " << stage << ", second first: " << second_first;
    }
    EXPECT_EQ(peak_buffers(two_and_two(second_first)), peak_buffers(without_validation()));
  }
}

// A graph that is kept on purpose and differentiated twice: the second time is a backward as any.
GraphRun twice() {
  GraphRun run{.make = maker<ChainNet>(), .steps = 3};
  run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    engine.core().backward(loss, {.keeps_graph = true});
    engine.backward(loss);
    engine.step();
    return loss;
  };
  return run;
}

TEST(KeptGraphs, DifferentiatedTwice) {
  const GraphTrace expected = train_graph(twice(), 0);
  for (int stage = 1; stage <= 3; ++stage) {
    EXPECT_EQ(difference(train_graph(twice(), stage), expected), "") << "stage " << stage;
  }
  EXPECT_EQ(peak_buffers(twice()), peak_buffers(without_validation()));
}

// The step writes parameters behind autograd's back, so the engine must say it.
TEST(KeptGraphs, MadeBeforeAStepAreRefused) {
  for (int stage = 0; stage <= 3; ++stage) {
    GraphRun run{.make = maker<ChainNet>(), .steps = 1};
    run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
      torch::Tensor old = net.loss(step + 100, rank);
      engine.backward(net.loss(step, rank));
      engine.step();
      try {
        engine.backward(old);
        ADD_FAILURE() << "a backward with changed weights";
      } catch (const StateError& error) {
        EXPECT_NE(std::string(error.what()).find("before the last step"), std::string::npos);
      }
      torch::Tensor fresh = net.loss(step + 1, rank);  // and training goes on
      engine.backward(fresh);
      engine.step();
      return fresh;
    };
    train_graph(run, stage);
  }
}

// Micro-steps that only collect change no parameter, so their graphs stay good.
TEST(KeptGraphs, MadeBeforeAMicroStepAreGood) {
  GraphRun run{.make = maker<ChainNet>(), .steps = 2};
  run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor old = net.loss(step + 100, rank);
    engine.backward(net.loss(step, rank));
    engine.step();
    EXPECT_NO_THROW(engine.backward(old));
    engine.step();
    return old;
  };
  EngineOptions options = graph_options(3);
  options.accumulation_steps = 2;
  train_graph(run, options);
}

}  // namespace
}  // namespace zeroshard::test
