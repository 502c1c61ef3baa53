// After an exception in forward or backward, on all ranks, training goes on as if it had not been.
#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tests/engine_graph/graph_run.h"

namespace zeroshard::test {
namespace {

struct Thrown : std::runtime_error {
  Thrown() : std::runtime_error("thrown by the test") {}
};

struct ThrowInBackward : torch::autograd::Function<ThrowInBackward> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, torch::Tensor x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    throw Thrown();
  }
};

enum class Fails { nowhere, in_forward, in_backward };

struct FragileImpl : BlockImpl {
  FragileImpl() : BlockImpl(6) { inner = register_module("inner", Unit<BlockImpl>(6)); }
  torch::Tensor forward(torch::Tensor x) {
    x = inner->forward(BlockImpl::forward(x));
    if (fails == Fails::in_forward) throw Thrown();
    return fails == Fails::in_backward ? ThrowInBackward::apply(x) : x;
  }
  Unit<BlockImpl> inner{nullptr};
  Fails fails = Fails::nowhere;
};

struct FragileNet : GraphNet {
  FragileNet() {
    first = register_module("first", Unit<BlockImpl>(6));
    fragile = register_module("fragile", Unit<FragileImpl>());
    last = register_module("last", Unit<BlockImpl>(6));
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    return last->forward(fragile->forward(first->forward(x))).square().mean();
  }
  Unit<BlockImpl> first{nullptr}, last{nullptr};
  Unit<FragileImpl> fragile{nullptr};
};

using Attempt = std::function<void(FragileNet&, Engine&, int rank)>;

// The attempt comes before the given step; every unit is released after it.
GraphRun run_of(const Attempt& attempt, int at_step) {
  GraphRun run{.make = maker<FragileNet>(), .steps = 4};
  run.train_step = [attempt, at_step](GraphNet& net, Engine& engine, int step, int rank) {
    if (attempt && step == at_step) {
      EXPECT_ANY_THROW(attempt(dynamic_cast<FragileNet&>(net), engine, rank));
      dynamic_cast<FragileNet&>(net).fragile->fails = Fails::nowhere;
    }
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    return loss;
  };
  return run;
}

void expect_no_trace_of(const Attempt& attempt) {
  const GraphTrace expected = train_graph(run_of({}, 0), 0);
  for (const int at_step : {0, 2}) {
    for (const int stage : {0, 1, 2, 3}) {
      EXPECT_EQ(difference(expected, train_graph(run_of(attempt, at_step), stage)), "")
          << "stage " << stage << ", before step " << at_step;
    }
  }
}

TEST(Exceptions, InForward) {
  expect_no_trace_of([](FragileNet& net, Engine&, int rank) {
    net.fragile->fails = Fails::in_forward;
    net.loss(50, rank);
  });
}

TEST(Exceptions, InAnEvaluation) {
  expect_no_trace_of([](FragileNet& net, Engine&, int rank) {
    const torch::NoGradGuard no_grad;
    net.fragile->fails = Fails::in_forward;
    net.loss(50, rank);
  });
}

TEST(Exceptions, InBackward) {
  expect_no_trace_of([](FragileNet& net, Engine& engine, int rank) {
    net.fragile->fails = Fails::in_backward;
    engine.backward(net.loss(50, rank));
  });
}

// Nobody tells the engine that this backward is over.
TEST(Exceptions, InABackwardThatAutogradStarted) {
  expect_no_trace_of([](FragileNet& net, Engine&, int rank) {
    net.fragile->fails = Fails::in_backward;
    net.loss(50, rank).backward();
  });
}

TEST(Exceptions, InARecompute) {
  expect_no_trace_of([](FragileNet& net, Engine& engine, int rank) {
    net.fragile->checkpoint_activations();
    const torch::Tensor loss = net.loss(50, rank);
    net.fragile->fails = Fails::in_forward;
    net.fragile->checkpoint_activations(false);
    engine.backward(loss);
  });
}

// In the second of two micro-steps: both are forgotten and the accumulation begins anew.
TEST(Exceptions, InTheBackwardOfALaterMicroStep) {
  for (const int stage : {0, 1, 2, 3}) {
    EngineOptions options = graph_options(stage);
    options.accumulation_steps = 2;
    GraphRun run = run_of({}, 0);
    const auto two_micro_steps = [](GraphNet& net, Engine& engine, int step, int rank) {
      torch::Tensor loss = net.loss(step, rank);
      engine.backward(loss);
      EXPECT_FALSE(engine.step().boundary);
      engine.backward(net.loss(step + 20, rank));
      EXPECT_TRUE(engine.step().boundary);
      return loss;
    };
    run.train_step = two_micro_steps;
    const GraphTrace expected = train_graph(run, options);
    run.train_step = [&](GraphNet& net, Engine& engine, int step, int rank) {
      engine.backward(net.loss(70, rank));
      engine.step();
      FragileNet& fragile = dynamic_cast<FragileNet&>(net);
      fragile.fragile->fails = Fails::in_backward;
      EXPECT_ANY_THROW(engine.backward(net.loss(71, rank)));
      fragile.fragile->fails = Fails::nowhere;
      return two_micro_steps(net, engine, step, rank);
    };
    EXPECT_EQ(difference(expected, train_graph(run, options)), "") << "stage " << stage;
  }
}

}  // namespace
}  // namespace zeroshard::test
