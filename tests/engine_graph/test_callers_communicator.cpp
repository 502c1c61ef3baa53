// The communicator that an engine is made with stays its caller's, and what fails at an engine's
// end leaves no memory that others still use.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engine_graph/graph_run.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

// One rank leaves the last unit out, so it still owes the others a gather when forward is over.
struct ShorterNet : GraphNet {
  ShorterNet() {
    for (int i = 0; i < 4; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Unit<BlockImpl>(6)));
    }
  }
  torch::Tensor loss(int step, int rank) override {
    torch::Tensor x = numbers({4, 6}, 10 * step + rank);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i + 1 < blocks.size() || rank == 0) x = blocks[i]->forward(x);
    }
    return x.square().mean();
  }
  std::vector<Unit<BlockImpl>> blocks;
};

TEST(CallersCommunicator, MayBeUsedBetweenForwardAndBackward) {
  for (int stage = 0; stage <= 3; ++stage) {
    run_ranks(2, {.timeout = std::chrono::seconds(10)}, [&](Communicator& comm) {
      ShorterNet net;
      set_parameters(net, 1);
      Engine engine(static_cast<torch::nn::Module&>(net), graph_options(stage), comm);
      for (int step = 0; step < 3; ++step) {
        const torch::Tensor loss = net.loss(step, comm.rank());
        auto mean = loss.item<float>();
        comm.all_reduce({&mean, 1, DType::fp32}, ReduceOp::sum, "the caller's mean").wait();
        engine.backward(loss);
        comm.barrier("the caller's barrier").wait();
        engine.step();
      }
    });
  }
}

// Operations that end late: a gather in an error, a reduction well.
class LateCommunicator final : public Communicator {
 public:
  explicit LateCommunicator(std::shared_ptr<std::atomic<int>> at_work) : at_work_(at_work) {}
  ~LateCommunicator() override {
    for (std::thread& thread : threads_) thread.join();
  }

  int rank() const override { return 0; }
  int world_size() const override { return 2; }
  Handle all_gather_into(const std::vector<GatherPair>&, const std::string& label) override {
    if (label == "norm") return {};
    return later(std::make_exception_ptr(CommError({.what = "a gather failed"})));
  }
  Handle reduce_scatter_into(const std::vector<ReducePair>&, const ReduceOptions&,
                             const std::string&) override {
    return later(nullptr);
  }
  Handle all_reduce(const Piece&, ReduceOp, const std::string&) override { return {}; }
  Handle broadcast(const Piece&, int, const std::string&) override { return {}; }
  Handle barrier(const std::string&) override { return {}; }
  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<LateCommunicator>(at_work_);
  }

 private:
  Handle later(std::exception_ptr error) {
    const auto completion = std::make_shared<Completion>();
    ++*at_work_;
    threads_.emplace_back([completion, error, at_work = at_work_] {
      std::this_thread::sleep_for(std::chrono::milliseconds(error ? 5 : 100));
      --*at_work;
      completion->finish(error);
    });
    return Handle(completion);
  }

  std::shared_ptr<std::atomic<int>> at_work_;
  std::vector<std::thread> threads_;
};

// Buffers are part of the engine: when it is gone nothing may still be at work in them, though the
// new values of the parameters, on their way to the other ranks, have failed.
TEST(CallersCommunicator, AFailedGatherDoesNotHideAReduction) {
  const auto at_work = std::make_shared<std::atomic<int>>(0);
  LateCommunicator comm(at_work);
  ShorterNet net;
  set_parameters(net, 1);
  {
    EngineOptions options = graph_options(1);
    options.zero.overlap_comm = true;
    Engine engine(static_cast<torch::nn::Module&>(net), options, comm);
    engine.backward(net.loss(0, 0));
    engine.step();  // gathers are under way, and will fail
    EXPECT_THROW(engine.backward(net.loss(1, 0)), CommError);
    EXPECT_THROW(engine.finish(), CommError);
  }
  EXPECT_EQ(at_work->load(), 0);
}

}  // namespace
}  // namespace zeroshard::test
