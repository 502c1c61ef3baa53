// Collectives that start late and end late, at random, change no bit: nothing may depend on when
// messages arrive.
#include <chrono>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::test {
namespace {

// Passes operations on from a side stream of its own, which dawdles before and after each.
class DawdlingCommunicator final : public Communicator {
 public:
  DawdlingCommunicator(Communicator& comm, unsigned seed) : comm_(comm), random_(seed) {}
  DawdlingCommunicator(std::unique_ptr<Communicator> owned, unsigned seed)
      : comm_(*owned), random_(seed), owned_(std::move(owned)) {}

  int rank() const override { return comm_.rank(); }
  int world_size() const override { return comm_.world_size(); }

  Handle all_gather_into(const std::vector<GatherPair>& pairs, const std::string& label) override {
    return submit([this, pairs, label] { return comm_.all_gather_into(pairs, label); });
  }
  Handle reduce_scatter_into(const std::vector<ReducePair>& pairs, const ReduceOptions& options,
                             const std::string& label) override {
    return submit(
        [this, pairs, options, label] { return comm_.reduce_scatter_into(pairs, options, label); });
  }
  Handle all_reduce(const Piece& piece, ReduceOp op, const std::string& label) override {
    return submit([this, piece, op, label] { return comm_.all_reduce(piece, op, label); });
  }
  Handle broadcast(const Piece& piece, int root, const std::string& label) override {
    return submit([this, piece, root, label] { return comm_.broadcast(piece, root, label); });
  }
  Handle barrier(const std::string& label) override {
    return submit([this, label] { return comm_.barrier(label); });
  }
  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<DawdlingCommunicator>(comm_.make_sibling(), ++siblings_ * 7919U);
  }

 private:
  Handle submit(std::function<Handle()> start) {
    const auto completion = std::make_shared<Completion>();
    worker_.run([this, start = std::move(start), completion] { run(start, *completion); });
    return Handle(completion);
  }

  void dawdle() {
    const unsigned draw = random_();
    if (draw % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw / 2 % 400));
  }

  void run(const std::function<Handle()>& start, Completion& completion) {
    try {
      dawdle();
      start().wait();
      dawdle();
      completion.finish();
    } catch (...) {
      completion.finish(std::current_exception());
    }
  }

  Communicator& comm_;
  std::minstd_rand random_;  // of the worker alone
  const std::unique_ptr<Communicator> owned_ = {};
  unsigned siblings_ = 0;
  Stream worker_ = Stream::make(kCpu);  // last: its work uses all the above
};

Trace delayed(const RunPlan& plan, unsigned seed) {
  std::vector<Trace> traces(static_cast<std::size_t>(plan.ranks));
  run_ranks(plan.ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    const auto rank = static_cast<unsigned>(comm.rank());
    DawdlingCommunicator slow(comm, seed * 31U + rank + 1U);
    traces[rank] = train_rank(plan, slow);
  });
  for (const Trace& trace : traces) EXPECT_EQ(trace.weights, traces[0].weights);
  traces[0].losses.clear();  // of one rank only
  return traces[0];
}

class Delays : public testing::TestWithParam<std::tuple<int, DType, std::int64_t>> {};

TEST_P(Delays, ChangeNoBit) {
  const auto [stage, dtype, micro_steps] = GetParam();
  RunPlan plan = small_plan(stage, 3, dtype, micro_steps);
  plan.options.precision.fp16.initial_scale_power = 10;
  plan.options.zero.overlap_comm = true;
  plan.steps = 5;
  for (const std::int64_t bucket : {0, 5000}) {
    plan.options.zero.reduce_bucket_numel = bucket;
    Trace expected = train(plan);
    expected.losses.clear();
    for (unsigned seed = 1; seed <= 3; ++seed) {
      EXPECT_EQ(difference(expected, delayed(plan, seed)), "") << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Delays,
                         testing::Combine(testing::Range(0, 4),
                                          testing::Values(DType::fp32, DType::bf16),
                                          testing::Values<std::int64_t>(1, 2)));

}  // namespace
}  // namespace zeroshard::test
