// Parameters that are shared, frozen or of another dtype than their neighbours.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"

namespace zeroshard::test {
namespace {

// A projection by a weight that somebody else may own too.
struct ProjectionImpl : torch::nn::Module {
  explicit ProjectionImpl(const torch::Tensor& shared) {
    weight = register_parameter("weight", shared);
    bias = register_parameter("bias", torch::zeros({shared.size(0)}));
  }
  torch::Tensor forward(torch::Tensor x) { return torch::linear(x, weight, bias); }
  torch::Tensor weight, bias;
};

// The head's weight is the embedding's: no unit encloses both, so it is of the root.
struct TiedNet : GraphNet {
  TiedNet() {
    tokens = register_module("tokens", Unit<TokensImpl>(11, 6));
    block = register_module("block", Unit<BlockImpl>(6));
    head = register_module("head", Unit<ProjectionImpl>(tokens->table->weight));
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor ids = batch_of(3, 5, 11, static_cast<std::uint64_t>(10 * step + rank));
    return head->forward(block->forward(tokens->forward(ids))).square().mean();
  }
  Unit<TokensImpl> tokens{nullptr};
  Unit<BlockImpl> block{nullptr};
  Unit<ProjectionImpl> head{nullptr};
};

// Two units inside one share a weight: it is of the unit around them.
struct PairImpl : torch::nn::Module {
  PairImpl() {
    const torch::Tensor shared = torch::ones({6, 6}).set_requires_grad(true);
    own = register_parameter("own", torch::ones({6}));
    a = register_module("a", Unit<ProjectionImpl>(shared));
    b = register_module("b", Unit<ProjectionImpl>(shared));
  }
  torch::Tensor forward(torch::Tensor x) { return own * b->forward(torch::tanh(a->forward(x))); }
  torch::Tensor own;
  Unit<ProjectionImpl> a{nullptr}, b{nullptr};
};

struct NestedTiedNet : GraphNet {
  NestedTiedNet() {
    before = register_module("before", Unit<BlockImpl>(6));
    pair = register_module("pair", Unit<PairImpl>());
    after = register_module("after", Unit<BlockImpl>(6));
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    return after->forward(pair->forward(before->forward(x))).square().mean();
  }
  Unit<BlockImpl> before{nullptr}, after{nullptr};
  Unit<PairImpl> pair{nullptr};
};

std::string unit_of(Engine& engine, const std::string& parameter) {
  for (std::size_t i = 0; i < engine.core().units(); ++i) {
    for (const NamedParameter& each : engine.core().unit(i).parameters()) {
      if (each.name == parameter) return engine.core().unit(i).name();
    }
  }
  return "nowhere";
}

// Trains as usual and says in which unit a parameter is.
GraphRun asking(const GraphRun& run, const std::string& parameter, std::string& unit) {
  GraphRun asked = run;
  asked.train_step = [&, parameter](GraphNet& net, Engine& engine, int step, int rank) {
    if (rank == 0) unit = unit_of(engine, parameter);
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    return loss;
  };
  return asked;
}

TEST(TiedParameters, OfTwoUnitsAreOfTheRoot) {
  expect_stages_equal({.make = maker<TiedNet>()});
  std::string unit;
  train_graph(asking({.make = maker<TiedNet>(), .steps = 1}, "tokens.table.weight", unit), 3);
  EXPECT_EQ(unit, "root");
}

TEST(TiedParameters, OfUnitsInsideOneAreOfThatOne) {
  expect_stages_equal({.make = maker<NestedTiedNet>()});
  expect_stages_equal({.make = maker<NestedTiedNet>(), .ranks = 3});
  std::string unit;
  train_graph(asking({.make = maker<NestedTiedNet>(), .steps = 1}, "pair.a.weight", unit), 3);
  EXPECT_EQ(unit, "pair");
}

// A frozen weight with trainable adapters in one unit; its backward still needs the weight.
struct AdapterImpl : torch::nn::Module {
  AdapterImpl() {
    base = register_module("base", torch::nn::Linear(6, 6));
    for (torch::Tensor& each : base->parameters()) each.set_requires_grad(false);
    down = register_module("down", torch::nn::Linear(6, 2));
    up = register_module("up", torch::nn::Linear(2, 6));
  }
  torch::Tensor forward(torch::Tensor x) { return torch::tanh(base(x)) + up(down(x)); }
  torch::nn::Linear base{nullptr}, down{nullptr}, up{nullptr};
};

struct FrozenNet : GraphNet {
  FrozenNet() {
    tower = register_module("tower", Unit<BlockImpl>(6));  // its inputs need no gradient either
    first = register_module("first", Unit<AdapterImpl>());
    middle = register_module("middle", Unit<BlockImpl>(6));  // gradients pass through it
    last = register_module("last", Unit<AdapterImpl>());
    for (torch::Tensor& each : tower->parameters()) each.set_requires_grad(false);
    for (torch::Tensor& each : middle->parameters()) each.set_requires_grad(false);
  }
  torch::Tensor loss(int step, int rank) override {
    torch::Tensor x = tower->forward(numbers({4, 6}, 10 * step + rank));
    return last->forward(middle->forward(first->forward(x))).square().mean();
  }
  Unit<BlockImpl> tower{nullptr}, middle{nullptr};
  Unit<AdapterImpl> first{nullptr}, last{nullptr};
};

TEST(FrozenParameters, InAUnitWithOthersAndInAUnitOfTheirOwn) {
  expect_stages_equal({.make = maker<FrozenNet>()});
  expect_stages_equal({.make = maker<FrozenNet>(), .ranks = 3});
  const GraphTrace start = train_graph({.make = maker<FrozenNet>(), .steps = 0}, 3);
  const GraphTrace end = train_graph({.make = maker<FrozenNet>()}, 3);
  EXPECT_EQ(end.weights.at("first.base.weight"), start.weights.at("first.base.weight"));
  EXPECT_EQ(end.weights.at("middle.up.weight"), start.weights.at("middle.up.weight"));
  EXPECT_NE(end.weights.at("first.up.weight"), start.weights.at("first.up.weight"));
}

// A bf16 weight beside fp32 ones: two flat groups, the bf16 one with a master.
struct TwoTypesImpl : torch::nn::Module {
  TwoTypesImpl() {
    half = register_parameter("half", torch::ones({6, 6}, torch::kBFloat16));
    full = register_parameter("full", torch::ones({6, 6}));
  }
  torch::Tensor forward(torch::Tensor x) {
    return torch::tanh(x.matmul(full)).to(torch::kBFloat16).matmul(half).to(torch::kFloat);
  }
  torch::Tensor half, full;
};

struct TwoTypesNet : GraphNet {
  TwoTypesNet() {
    for (const char* name : {"a", "b"}) {
      units.push_back(register_module(name, Unit<TwoTypesImpl>()));
    }
  }
  torch::Tensor loss(int step, int rank) override {
    torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    for (auto& unit : units) x = unit->forward(x);
    return x.square().mean();
  }
  std::vector<Unit<TwoTypesImpl>> units;
};

TEST(MixedTypes, InOneUnit) {
  const GraphRun run{.make = maker<TwoTypesNet>(), .steps = 5};
  const GraphTrace expected = train_graph(run, 0);
  for (const int stage : {1, 2, 3}) {
    EXPECT_EQ(difference(expected, train_graph(run, stage)), "") << "stage " << stage;
  }
  EXPECT_LT(expected.losses.back(), expected.losses.front());
}

}  // namespace
}  // namespace zeroshard::test
