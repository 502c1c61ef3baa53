// Units take and give what their modules do, any number of times in one forward.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"
#include "zeroshard/base/error.h"

namespace zeroshard::test {
namespace {

using Parts = std::vector<torch::Tensor>;

// A tensor, tensors in a list, one that may be missing, and a number.
struct MixImpl : torch::nn::Module {
  MixImpl() {
    left = register_module("left", torch::nn::Linear(6, 6));
    right = register_module("right", torch::nn::Linear(6, 6));
    unused = register_module("unused", torch::nn::Linear(6, 6));
  }
  std::tuple<torch::Tensor, Parts> forward(const torch::Tensor& x, Parts parts,
                                           std::optional<torch::Tensor> scale, std::int64_t power) {
    torch::Tensor mixed = left(x) * torch::tanh(right(parts.at(0)) + parts.at(1));
    for (std::int64_t i = 0; i < power; ++i) mixed = mixed * 1.5;
    if (scale) mixed = mixed * *scale;
    return {mixed, {mixed.sin(), unused(x)}};
  }
  torch::nn::Linear left{nullptr}, right{nullptr}, unused{nullptr};
};

// The second unit's list holds an input without a gradient; its last output is in no loss.
struct MixNet : GraphNet {
  MixNet() {
    first = register_module("first", Unit<MixImpl>());
    second = register_module("second", Unit<MixImpl>());
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    auto [a, parts] = first->forward(x, {x, x}, std::nullopt, 1);
    auto [b, more] = second->forward(a, {parts.at(0), x}, parts.at(0), 2);
    return (b + more.at(0)).square().mean();
  }
  Unit<MixImpl> first{nullptr}, second{nullptr};
};

TEST(UnitCalls, SeveralInputsAndOutputs) {
  expect_stages_equal({.make = maker<MixNet>()});
  expect_stages_equal({.make = maker<MixNet>(), .ranks = 3});
}

// `unused` and what only it feeds have no gradient: weight decay must not move them either.
TEST(UnitCalls, AnOutputThatIsInNoLossBringsNoGradient) {
  const GraphTrace none = train_graph({.make = maker<MixNet>(), .steps = 0}, 3);
  const GraphTrace some = train_graph({.make = maker<MixNet>(), .steps = 2}, 3);
  EXPECT_EQ(some.weights.at("second.unused.weight"), none.weights.at("second.unused.weight"));
  EXPECT_EQ(some.weights.at("first.unused.bias"), none.weights.at("first.unused.bias"));
  EXPECT_NE(some.weights.at("second.left.weight"), none.weights.at("second.left.weight"));
}

struct TwoInputsImpl : torch::nn::Module {
  TwoInputsImpl() { linear = register_module("linear", torch::nn::Linear(6, 6)); }
  torch::Tensor forward(torch::Tensor x, torch::Tensor ignored) {
    return linear(x) + 0 * ignored.detach();
  }
  torch::nn::Linear linear{nullptr};
};

// An input that is not used hands no zeros on to those who made it.
struct IgnoringNet : GraphNet {
  IgnoringNet() {
    for (const char* name : {"a", "b"}) {
      sources.push_back(register_module(name, Unit<BlockImpl>(6)));
    }
    sink = register_module("sink", Unit<TwoInputsImpl>());
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    return sink->forward(sources[0]->forward(x), sources[1]->forward(x)).square().mean();
  }
  std::vector<Unit<BlockImpl>> sources;
  Unit<TwoInputsImpl> sink{nullptr};
};

TEST(UnitCalls, AnInputThatIsNotUsedBringsNoGradient) {
  expect_stages_equal({.make = maker<IgnoringNet>()});
}

struct InPlaceImpl : BlockImpl {
  explicit InPlaceImpl(std::int64_t width) : BlockImpl(width) {}
  torch::Tensor forward(torch::Tensor x) { return BlockImpl::forward(x.relu_()); }
};

// The second unit's input is changed by it, and used again as it then is; nobody else has the
// third's.
struct InPlaceNet : GraphNet {
  InPlaceNet() {
    for (const char* name : {"a", "b", "c"}) {
      units.push_back(register_module(name, Unit<InPlaceImpl>(6)));
    }
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = units[0]->forward(numbers({4, 6}, 10 * step + rank)) - 0.1;
    const torch::Tensor y = units[1]->forward(view ? x.view({2, 2, 6}) : x);
    return units[2]->forward(y.reshape({4, 6}) + 0.5 * x).square().mean();
  }
  std::vector<Unit<InPlaceImpl>> units;
  bool view = false;
};

TEST(UnitCalls, AnInputIsChangedInPlace) { expect_stages_equal({.make = maker<InPlaceNet>()}); }

struct AddingImpl : BlockImpl {
  explicit AddingImpl(std::int64_t width) : BlockImpl(width) {}
  torch::Tensor forward(torch::Tensor x, torch::Tensor same) {
    x.add_(BlockImpl::forward(same.clone()));
    return torch::zeros({1});
  }
};

// The input is the weights' only way into the loss, and is given twice.
struct AddingNet : GraphNet {
  AddingNet() {
    first = register_module("first", Unit<BlockImpl>(6));
    for (const char* name : {"a", "b"}) {
      units.push_back(register_module(name, Unit<AddingImpl>(6)));
    }
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = first->forward(numbers({4, 6}, 10 * step + rank));
    for (Unit<AddingImpl>& unit : units) unit->forward(x, x);
    return x.square().mean();
  }
  Unit<BlockImpl> first{nullptr};
  std::vector<Unit<AddingImpl>> units;
};

TEST(UnitCalls, OnlyAnInputIsChanged) { expect_stages_equal({.make = maker<AddingNet>()}); }

TEST(UnitCalls, AViewThatIsChangedInPlaceIsRefused) {
  GraphRun run{.make = maker<InPlaceNet>(), .ranks = 1};
  run.train_step = [](GraphNet& net, Engine&, int step, int rank) {
    dynamic_cast<InPlaceNet&>(net).view = true;
    return net.loss(step, rank);
  };
  EXPECT_THROW(train_graph(run, 3), StateError);
}

struct TwiceNet : GraphNet {
  TwiceNet() {
    shared = register_module("shared", Unit<BlockImpl>(6));
    between = register_module("between", Unit<BlockImpl>(6));
  }
  torch::Tensor once(const torch::Tensor& x) {
    return shared->forward(between->forward(shared->forward(shared->forward(x))));
  }
  torch::Tensor loss(int step, int rank) override {
    return once(numbers({4, 6}, 10 * step + rank)).square().mean();
  }
  Unit<BlockImpl> shared{nullptr}, between{nullptr};
};

TEST(UnitCalls, SeveralTimesInOneForward) { expect_stages_equal({.make = maker<TwiceNet>()}); }

struct ProductNet : TwiceNet {
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    return (once(x) * once(x.flip(0))).mean();
  }
};

TEST(UnitCalls, TwoForwardsBeforeOneBackward) {
  expect_stages_equal({.make = maker<ProductNet>()});
  expect_stages_equal({.make = maker<ProductNet>(), .ranks = 3});
}

// A graph that is kept and differentiated again: no use may be taken for the last too early.
TEST(UnitCalls, AGraphIsDifferentiatedTwice) {
  GraphRun run{.make = maker<ProductNet>()};
  run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
    torch::Tensor loss = net.loss(step, rank);
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    engine.step();
    return loss;
  };
  const GraphTrace expected = train_graph(run, 0);
  EXPECT_EQ(difference(expected, train_graph(run, 3)), "");
  EXPECT_EQ(difference(expected, train_graph(run, 2)), "");
}

// One module under two names is one unit.
struct AliasNet : GraphNet {
  AliasNet() {
    block = register_module("one", Unit<BlockImpl>(6));
    register_module("two", block.ptr());
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    return block->forward(block->forward(x)).square().mean();
  }
  Unit<BlockImpl> block{nullptr};
};

TEST(UnitCalls, AUnitThatIsRegisteredTwiceIsOne) {
  GraphRun run{.make = maker<AliasNet>(), .steps = 2};
  run.train_step = [](GraphNet& net, Engine& engine, int step, int rank) {
    EXPECT_EQ(engine.core().units(), 2U);
    EXPECT_FALSE(engine.core().unit(1).resident());
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    return loss;
  };
  train_graph(run, 3);
  expect_stages_equal({.make = run.make});
}

// forward() may be const, overloaded (say which) or a template.
struct ConstImpl : torch::nn::Module {
  ConstImpl() { linear = register_module("linear", torch::nn::Linear(6, 6)); }
  torch::Tensor forward(const torch::Tensor& x) const {
    return torch::linear(x, linear->weight, linear->bias).tanh();
  }
  torch::nn::Linear linear{nullptr};
};

struct OverloadedImpl : ConstImpl {
  torch::Tensor forward(torch::Tensor x, double factor) { return linear(x) * factor; }
  template <typename Number>
  torch::Tensor forward(torch::Tensor x, std::vector<Number> factors) {
    for (const Number factor : factors) x = linear(x) * factor;
    return x;
  }
};
using ByNumber = Unit<OverloadedImpl, torch::Tensor (OverloadedImpl::*)(torch::Tensor, double)>;
using ByList =
    Unit<OverloadedImpl, torch::Tensor (OverloadedImpl::*)(torch::Tensor, std::vector<double>)>;

struct SignaturesNet : GraphNet {
  SignaturesNet() {
    constant = register_module("constant", Unit<ConstImpl>());
    number = register_module("number", ByNumber());
    list = register_module("list", ByList());
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = constant->forward(numbers({4, 6}, 10 * step + rank));
    return list->forward(number->forward(x, 1.5), {0.5, 2.0}).square().mean();
  }
  Unit<ConstImpl> constant{nullptr};
  ByNumber number{nullptr};
  ByList list{nullptr};
};

TEST(UnitCalls, ForwardOfEveryKind) { expect_stages_equal({.make = maker<SignaturesNet>()}); }

}  // namespace
}  // namespace zeroshard::test
