// Parameters that are created sharded are the ones that would have been created whole.
#include <mutex>

#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/layout/alignment.h"

namespace zeroshard::test {
namespace {

// Threads share torch's generator, so ranks construct one after the other.
std::mutex construction;

EngineOptions options_of(int stage, DType dtype) {
  EngineOptions options = graph_options(stage);
  options.precision.bf16.enabled = dtype == DType::bf16;
  options.parameter_groups = {AdamOptions{.lr = 1e-2}};
  return options;
}

Model made_whole(std::uint64_t seed) {
  const std::lock_guard lock(construction);
  torch::manual_seed(seed);
  return Model(ModelShape{});
}

Model made_sharded(const EngineOptions& options, Communicator& comm, std::uint64_t seed) {
  const std::lock_guard lock(construction);
  const Init scope(options, comm, seed);
  return Model(ModelShape{});
}

struct Result {
  Weights start;
  Weights end;
  double loss = 0.0;
  bool operator==(const Result&) const = default;
};

Result run(int ranks, int stage, DType dtype, bool init) {
  Result result;
  const EngineOptions options = options_of(stage, dtype);
  run_ranks(ranks, {.timeout = std::chrono::seconds(20)}, [&](Communicator& comm) {
    at::set_num_threads(1);
    Model model = init ? made_sharded(options, comm, 7) : made_whole(7);
    Engine engine(model, options, comm);
    const Weights start = weights_of(engine);
    const torch::Tensor loss = model->loss(batch_of(2, 9, 37, 5));
    engine.backward(loss);
    engine.step();
    const Weights end = weights_of(engine);
    if (comm.rank() == 0) result = {start, end, loss.item<double>()};
  });
  return result;
}

TEST(Init, GivesTheWeightsOfAModelMadeWhole) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const Result whole = run(1, 0, dtype, false);
    EXPECT_EQ(whole.start.size(), 22U);
    for (const int ranks : {1, 2, 3}) {
      for (const int stage : {0, 3}) {
        const Result sharded = run(ranks, stage, dtype, true);
        EXPECT_TRUE(sharded.start == whole.start) << ranks << " ranks, stage " << stage;
        EXPECT_TRUE(sharded == run(ranks, stage, dtype, false)) << ranks << ", stage " << stage;
      }
    }
  }
}

std::int64_t owned_bytes(Core& core, int ranks) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < core.units(); ++i) {
    for (const FlatGroup& group : core.unit(i).layout().groups()) {
      const bool whole = core.unit(i).resident();
      bytes += buffer_bytes(group.layout.shard_numel() * (whole ? ranks : 1), group.dtype);
    }
  }
  return bytes;
}

// After each unit there are as many bytes as shards so far; never more.
TEST(Init, HoldsShardsOnly) {
  run_ranks(3, {.timeout = std::chrono::seconds(20)}, [&](Communicator& comm) {
    const EngineOptions options = options_of(3, DType::bf16);
    Model model = made_sharded(options, comm, 7);
    Engine engine(model, options, comm);
    const MemoryLedger& ledger = engine.core().memory();
    const std::int64_t bytes = owned_bytes(engine.core(), 3);
    EXPECT_EQ(ledger.bytes(Category::parameters, Tier::device), bytes);
    EXPECT_EQ(ledger.peak(Category::parameters, Tier::device), bytes);
  });
}

struct NestedImpl : torch::nn::Module {
  NestedImpl() {
    inner = register_module("inner", Unit<BlockImpl>(6));
    gain = register_parameter("gain", torch::ones({6}));
  }
  torch::Tensor forward(torch::Tensor x) { return gain * inner->forward(x); }
  Unit<BlockImpl> inner{nullptr};
  torch::Tensor gain;
};

struct NestedNet : torch::nn::Module {
  NestedNet() { outer = register_module("outer", Unit<NestedImpl>()); }
  Unit<NestedImpl> outer{nullptr};
};

TEST(Init, TakesNestedUnits) {
  run_ranks(2, {.timeout = std::chrono::seconds(20)}, [&](Communicator& comm) {
    std::unique_ptr<NestedNet> net;
    {
      const std::lock_guard lock(construction);
      const Init scope(graph_options(3), comm);
      net = std::make_unique<NestedNet>();
    }
    Engine engine(static_cast<torch::nn::Module&>(*net), graph_options(3), comm);
    EXPECT_EQ(engine.core().units(), 3U);
    const torch::Tensor loss = net->outer->forward(numbers({4, 6}, comm.rank())).mean();
    engine.backward(loss);
    EXPECT_TRUE(engine.step().applied);
  });
}

TEST(Init, RefusesAnEngineOfOtherOptions) {
  run_ranks(1, {}, [&](Communicator& comm) {
    Model model = made_sharded(options_of(3, DType::bf16), comm, 7);
    EXPECT_THROW(Engine(model, options_of(3, DType::fp32), comm), StateError);
    Model frozen = made_sharded(options_of(3, DType::fp32), comm, 7);
    frozen->head->out->weight.set_requires_grad(false);
    EXPECT_THROW(Engine(frozen, options_of(3, DType::fp32), comm), StateError);
  });
}

}  // namespace
}  // namespace zeroshard::test
