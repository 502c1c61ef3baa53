// Activation checkpointing: computed again in backward, the same bits.
#include <gtest/gtest.h>
#include <torch/nn/functional/dropout.h>

#include "tests/engine_graph/graph_run.h"

namespace zeroshard::test {
namespace {

struct OuterImpl : torch::nn::Module {
  OuterImpl() {
    inner = register_module("inner", Unit<BlockImpl>(6));
    other = register_module("other", Unit<BlockImpl>(6));
    gain = register_parameter("gain", torch::ones({6}));
  }
  // The second output may be in no loss; the list may hold what needs no gradient.
  std::vector<torch::Tensor> forward(std::vector<torch::Tensor> xs, bool twice) {
    torch::Tensor y = other->forward(inner->forward(xs.at(0) + xs.at(1)));
    if (twice) y = inner->forward(y);
    return {gain * y, y.sin()};
  }
  Unit<BlockImpl> inner{nullptr}, other{nullptr};
  torch::Tensor gain;
};

struct OuterNet : GraphNet {
  explicit OuterNet(bool checkpoints, bool is_first) : starts(is_first) {
    first = register_module("first", Unit<BlockImpl>(6));
    for (const char* name : {"a", "b"}) {
      outers.push_back(register_module(name, Unit<OuterImpl>()));
      outers.back()->checkpoint_activations(checkpoints);
    }
    last = register_module("last", Unit<BlockImpl>(6));
    last->checkpoint_activations(checkpoints);
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    // Where it starts the network, no input of the first checkpointed unit needs a gradient.
    torch::Tensor y = starts ? x : first->forward(x);
    y = outers[0]->forward({y, x}, false).at(0);
    auto both = outers[1]->forward({y, x}, true);
    y = outers[0]->forward({both.at(0), both.at(1)}, false).at(0);
    return last->forward(y).square().mean();
  }
  bool starts;
  Unit<BlockImpl> first{nullptr}, last{nullptr};
  std::vector<Unit<OuterImpl>> outers;
};

GraphRun run_of(bool checkpoints, bool starts, int ranks) {
  return {.make = [=] { return std::make_shared<OuterNet>(checkpoints, starts); },
          .ranks = ranks,
          .steps = 3};
}

TEST(Checkpointing, WithNestedUnitsGivesTheSameBits) {
  for (const bool starts : {false, true}) {
    for (const int ranks : {1, 2, 3}) {
      const GraphTrace expected = train_graph(run_of(false, starts, ranks), 0);
      for (const int stage : {0, 1, 2, 3}) {
        EXPECT_EQ(difference(expected, train_graph(run_of(true, starts, ranks), stage)), "")
            << "stage " << stage << ", ranks " << ranks << ", starts " << starts;
      }
    }
  }
}

TEST(Checkpointing, AlsoWhereAutogradStartsTheBackward) {
  GraphRun run = run_of(true, true, 2);
  run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    loss.backward();
    engine.step();
    return loss;
  };
  GraphTrace expected = train_graph(run_of(false, true, 2), 0);
  expected.norms.clear();
  EXPECT_EQ(difference(expected, train_graph(run, 0)), "");
  EXPECT_EQ(difference(expected, train_graph(run, 3)), "");
}

struct DropoutImpl : BlockImpl {
  DropoutImpl() : BlockImpl(6) {}
  torch::Tensor forward(torch::Tensor x) {
    return BlockImpl::forward(torch::nn::functional::dropout(x));
  }
};

struct DropoutNet : GraphNet {
  explicit DropoutNet(bool checkpoints) {
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Unit<DropoutImpl>()));
      blocks.back()->checkpoint_activations(checkpoints);
    }
  }
  torch::Tensor loss(int step, int rank) override {
    torch::manual_seed(static_cast<std::uint64_t>(step));
    torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    for (auto& block : blocks) x = block->forward(x);
    return x.square().mean();
  }
  std::vector<Unit<DropoutImpl>> blocks;
};

// One rank: threads would share torch's generator.
TEST(Checkpointing, DrawsTheSameRandomNumbersAgain) {
  const auto run = [](bool checkpoints) {
    return GraphRun{.make = [=] { return std::make_shared<DropoutNet>(checkpoints); }, .ranks = 1};
  };
  EXPECT_EQ(difference(train_graph(run(false), 0), train_graph(run(true), 3)), "");
}

// What is drawn after backward is what would have been drawn without it.
TEST(Checkpointing, LeavesTheGeneratorWhereItWas) {
  GraphRun run{.make = [] { return std::make_shared<DropoutNet>(true); }, .ranks = 1, .steps = 1};
  run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
    engine.backward(loss);
    EXPECT_TRUE(torch::equal(state, at::detail::getDefaultCPUGenerator().get_state()));
    engine.step();
    return loss;
  };
  train_graph(run, 3);
}

// Only inputs stay between forward and backward, and they go as backward uses them.
TEST(Checkpointing, KeepsNoInputLongerThanAutogradDoes) {
  GraphRun run{.make = [] { return std::make_shared<DropoutNet>(true); }, .ranks = 1, .steps = 1};
  run.train_step = [](GraphNet& net, Engine& engine, int, int) {
    auto& unit = dynamic_cast<DropoutNet&>(net).blocks[0];
    torch::Tensor x = numbers({4, 6}, 1);
    const c10::weak_intrusive_ptr<c10::StorageImpl> memory(x.storage().getWeakStorageImpl());
    torch::Tensor loss = unit->forward(x).square().mean();
    x.reset();
    EXPECT_FALSE(memory.expired());
    engine.backward(loss);
    EXPECT_TRUE(memory.expired());
    engine.step();
    return loss;
  };
  train_graph(run, 0);
}

}  // namespace
}  // namespace zeroshard::test
