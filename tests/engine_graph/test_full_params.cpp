// Full parameters in a scope and by visitors: read, and written so that training goes on from
// there.
#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

struct PairNet : GraphNet {
  PairNet() {
    a = register_module("a", Unit<BlockImpl>(6));
    b = register_module("b", Unit<BlockImpl>(6));
    gain = register_parameter("gain", torch::ones({6}));
  }
  torch::Tensor loss(int step, int rank) override {
    const torch::Tensor x = numbers({4, 6}, 10 * step + rank).to(gain.dtype());
    return (gain * b->forward(a->forward(x))).square().mean().to(torch::kFloat);
  }
  Unit<BlockImpl> a{nullptr}, b{nullptr};
  torch::Tensor gain;
};

void double_all(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& each : module.parameters()) each.mul_(2);
}

// How the parameters are doubled before the second step.
using Doubling = std::function<void(PairNet&, Engine&, int rank)>;

GraphTrace train(const Doubling& change, int stage, int ranks, DType dtype) {
  GraphRun run{.make = maker<PairNet>(), .ranks = ranks, .steps = 3};
  run.dtype = dtype;
  run.optimizer = SgdOptions{.lr = 1e-4};  // in bf16 a step is lost if the master is not there
  run.train_step = [&](GraphNet& net, Engine& engine, int step, int rank) {
    if (step == 1) change(dynamic_cast<PairNet&>(net), engine, rank);
    torch::Tensor loss = net.loss(step, rank);
    engine.backward(loss);
    engine.step();
    return loss;
  };
  return train_graph(run, stage);
}

void by_all(PairNet& net, Engine& engine, int) {
  const auto scope = engine.full_params({.writes = true});
  double_all(net);
}

void by_one(PairNet& net, Engine& engine, int rank) {
  const auto scope = engine.full_params({.writes = true, .from = 1});
  if (rank == 1) double_all(net);
}

void unit_by_unit(PairNet& net, Engine& engine, int) {
  for (const char* name : {"root", "a", "b"}) {
    const auto scope = engine.full_params_of({name}, {.writes = true});
    const torch::NoGradGuard no_grad;
    if (std::string(name) == "root") net.gain.mul_(2);
    if (std::string(name) == "a") double_all(*net.a);
    if (std::string(name) == "b") double_all(*net.b);
  }
}

void by_nobody(PairNet&, Engine&, int) {}

TEST(FullParams, WhatIsWrittenIsWhereTheNextStepStarts) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const GraphTrace expected = train(by_all, 0, 2, dtype);
    EXPECT_NE(difference(expected, train(by_nobody, 0, 2, dtype), 0.1), "");
    for (const int stage : {0, 1, 2, 3}) {
      EXPECT_EQ(difference(expected, train(by_all, stage, 2, dtype)), "") << stage;
      EXPECT_EQ(difference(expected, train(by_one, stage, 2, dtype)), "") << stage;
      EXPECT_EQ(difference(expected, train(unit_by_unit, stage, 2, dtype)), "") << stage;
    }
  }
}

// Masters have digits that 16-bit parameters have not. Rounded off at each step, they never get far
// enough for a parameter to move.
TEST(FullParams, AScopeThatMightHaveWrittenTakesNoDigits) {
  GraphRun run{.make = maker<PairNet>(), .ranks = 2, .steps = 60};
  run.dtype = DType::bf16;
  run.optimizer = SgdOptions{.lr = 1e-4};
  for (const int stage : {0, 1, 3}) {
    bool opens_scopes = false;
    run.train_step = [&](GraphNet& net, Engine& engine, int step, int rank) {
      if (opens_scopes) const auto scope = engine.full_params({.writes = true, .from = 0});
      torch::Tensor loss = net.loss(step, rank);
      engine.backward(loss);
      engine.step();
      return loss;
    };
    const GraphTrace undisturbed = train_graph(run, stage);
    opens_scopes = true;
    EXPECT_EQ(difference(undisturbed, train_graph(run, stage)), "") << stage;
  }
}

TEST(FullParams, OfThreeRanks) {
  EXPECT_EQ(difference(train(by_all, 0, 3, DType::bf16), train(by_one, 3, 3, DType::bf16)), "");
}

template <typename Body>
void on_engine(int stage, const Body& body) {
  run_ranks(2, {.timeout = std::chrono::seconds(20)}, [&](Communicator& comm) {
    PairNet net;
    set_parameters(net, 1);
    Engine engine(static_cast<torch::nn::Module&>(net), graph_options(stage), comm);
    body(net, engine);
  });
}

TEST(FullParams, ReadsWhatTheModelStartedWith) {
  PairNet expected;
  set_parameters(expected, 1);
  for (const int stage : {0, 3}) {
    on_engine(stage, [&](PairNet& net, Engine& engine) {
      const auto scope = engine.full_params();
      EXPECT_TRUE(torch::equal(net.a->up->weight, expected.a->up->weight));
      EXPECT_TRUE(torch::equal(net.b->down->bias, expected.b->down->bias));
    });
  }
}

TEST(FullParams, AnUnknownUnitIsAnError) {
  on_engine(
      3, [](PairNet&, Engine& engine) { EXPECT_THROW(engine.full_params_of({"c"}), StateError); });
}

// An exception in a scope gives up what was written, and the unit is released all the same.
TEST(FullParams, AnExceptionGivesUpWhatWasWritten) {
  on_engine(3, [](PairNet& net, Engine& engine) {
    const Weights before = weights_of(engine);
    try {
      const auto scope = engine.full_params_of({"a", "b"}, {.writes = true});
      double_all(*net.a);
      throw std::runtime_error("in the middle");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(engine.core().unit(1).state(), ParameterState::sharded);
    EXPECT_TRUE(weights_of(engine) == before);
  });
}

std::int64_t buffers(Engine& engine) {
  return engine.core().memory().bytes(Category::buffers, Tier::device);
}

TEST(FullParams, GiveTheirMemoryBack) {
  on_engine(3, [](PairNet&, Engine& engine) {
    const std::int64_t planned = buffers(engine);
    { const auto scope = engine.full_params(); }
    EXPECT_EQ(buffers(engine), planned);
  });
}

// No moment of it holds more than one unit beside the shards.
TEST(Visitors, StreamOneUnitAtATime) {
  on_engine(3, [](PairNet&, Engine& engine) {
    const std::int64_t planned = buffers(engine);
    engine.core().memory().forget_peaks();
    std::size_t seen = 0;
    engine.visit_parameters([&](const std::string&, const at::Tensor& full) {
      int ready = 0;
      for (std::size_t i = 0; i < engine.core().units(); ++i) {
        const FlatUnit& unit = engine.core().unit(i);
        ready += !unit.resident() && unit.state() != ParameterState::sharded ? 1 : 0;
      }
      EXPECT_LE(ready, 1);
      EXPECT_GT(full.numel(), 0);
      ++seen;
    });
    EXPECT_EQ(seen, 13U);
    EXPECT_EQ(engine.core().memory().peak(Category::buffers, Tier::device), planned);
  });
}

}  // namespace
}  // namespace zeroshard::test
