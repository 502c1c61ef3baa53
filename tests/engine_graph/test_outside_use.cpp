// A unit's parameters used elsewhere, or changed behind the engine's back.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

// The head multiplies by the embedding's weight through a call of the embedding's unit.
struct BorrowNet : GraphNet {
  BorrowNet() {
    tokens = register_module("tokens", Unit<TokensImpl>(11, 6));
    block = register_module("block", Unit<BlockImpl>(6));
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor ids = batch_of(3, 5, 11, static_cast<std::uint64_t>(10 * step + rank));
    const torch::Tensor hidden = block->forward(tokens->forward(ids));
    const auto project = [this](const torch::Tensor& x) {
      return torch::linear(x, tokens->table->weight);
    };
    return tokens->call(project, hidden).square().mean();
  }
  Unit<TokensImpl> tokens{nullptr};
  Unit<BlockImpl> block{nullptr};
};

TEST(OutsideUse, ThroughACallOfTheUnit) {
  expect_stages_equal({.make = maker<BorrowNet>()});
  expect_stages_equal({.make = maker<BorrowNet>(), .ranks = 3});
}

struct PeekingNet : BorrowNet {
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor ids = batch_of(3, 5, 11, static_cast<std::uint64_t>(10 * step + rank));
    const torch::Tensor hidden = block->forward(tokens->forward(ids));
    return torch::linear(hidden, tokens->table->weight).mean();
  }
};

// At stage 3 the memory is not there; a read ends the process with a sentence.
TEST(OutsideUseDeathTest, ReadingAReleasedParameterNamesTheUnit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(train_graph({.make = maker<PeekingNet>(), .steps = 1}, 3), testing::ExitedWithCode(1),
              "\\[state\\] .*released parameter.*tokens.*call the unit");
}

TEST(OutsideUse, IsPlainWhereParametersAreReplicated) {
  EXPECT_EQ(difference(train_graph({.make = maker<PeekingNet>()}, 0),
                       train_graph({.make = maker<PeekingNet>()}, 2)),
            "");
}

// What the next step says after `change`, on each of two ranks.
template <typename Change>
std::string complaint(const Change& change, int stage) {
  std::string text;
  run_ranks(2, {.timeout = std::chrono::seconds(20)}, [&](Communicator& comm) {
    BorrowNet net;
    set_parameters(net, 1);
    EngineOptions options = graph_options(stage);
    options.zero.persistence_numel = 1000;  // to() would read what is released
    Engine engine(static_cast<torch::nn::Module&>(net), options, comm);
    engine.backward(net.loss(0, comm.rank()));
    engine.step();
    engine.finish();
    change(net);
    try {
      net.loss(1, comm.rank());
    } catch (const StateError& error) {
      if (comm.rank() == 0) text = error.what();
    }
  });
  return text;
}

TEST(ChangedParameters, OtherMemoryIsAnErrorThatNamesTheParameter) {
  for (const int stage : {0, 3}) {
    const std::string text = complaint([](BorrowNet& net) { net.to(torch::kBFloat16); }, stage);
    EXPECT_NE(text.find("tokens.table.weight"), std::string::npos) << text;
    EXPECT_NE(text.find("before the engine"), std::string::npos) << text;
  }
}

TEST(ChangedParameters, FreezingIsAnErrorThatNamesTheParameter) {
  for (const int stage : {0, 3}) {
    const std::string text =
        complaint([](BorrowNet& net) { net.block->up->bias.set_requires_grad(false); }, stage);
    EXPECT_NE(text.find("block.up.bias"), std::string::npos) << text;
    EXPECT_NE(text.find("requires_grad"), std::string::npos) << text;
  }
}

// Parameters of the root are nobody's call: they are looked at when backward begins.
TEST(ChangedParameters, OfTheRoot) {
  run_ranks(1, {}, [&](Communicator& comm) {
    Model model(ModelShape{});
    Engine engine(model, graph_options(0), comm);
    model->norm->to(torch::kDouble);
    EXPECT_THROW(engine.backward(model->norm->weight.sum()), StateError);
  });
}

// Without its engine a unit is a plain module again, and may have another.
TEST(OutsideUse, AModelOutlivesItsEngine) {
  run_ranks(1, {}, [&](Communicator& comm) {
    BorrowNet net;
    set_parameters(net, 1);
    const torch::Tensor before = net.loss(0, 0);
    {
      Engine engine(static_cast<torch::nn::Module&>(net), graph_options(0), comm);
      EXPECT_TRUE(torch::equal(net.loss(0, 0), before));
    }
    EXPECT_TRUE(torch::equal(net.loss(0, 0), before));
    net.loss(0, 0).backward();
    EXPECT_TRUE(net.block->up->weight.grad().defined());
    Engine again(static_cast<torch::nn::Module&>(net), graph_options(3), comm);
    EXPECT_TRUE(torch::equal(net.loss(0, 0), before));
  });
}

}  // namespace
}  // namespace zeroshard::test
