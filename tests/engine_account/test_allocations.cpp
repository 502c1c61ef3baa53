// The ledger against the allocator. Each measurement runs in a process of its own, as one rank
// among several that nobody else plays: what a rank allocates does not depend on what it receives.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/engine_account/account_support.h"
#include "tests/support/run_program.h"

namespace zeroshard::test {
namespace {

// The other ranks are mirrors of this one.
class LonelyCommunicator final : public Communicator {
 public:
  // `look` is called in every gather and reduction: in forward, in backward and in the step.
  explicit LonelyCommunicator(
      int world_size, std::function<void()> look = [] {})
      : world_size_(world_size), look_(std::move(look)) {}

  int rank() const override { return world_size_ - 1; }
  int world_size() const override { return world_size_; }

  Handle all_gather_into(const std::vector<GatherPair>& pairs, const std::string&) override {
    look_();
    for (const GatherPair& pair : pairs) {
      const auto bytes = static_cast<std::size_t>(pair.in.bytes());
      for (int i = 0; i < world_size_; ++i) {
        std::memmove(static_cast<std::byte*>(pair.out.data) + i * pair.in.bytes(), pair.in.data,
                     bytes);
      }
    }
    return {};
  }
  Handle reduce_scatter_into(const std::vector<ReducePair>& pairs, const ReduceOptions&,
                             const std::string&) override {
    look_();
    for (const ReducePair& pair : pairs) {
      if (pair.in.dtype != pair.out.dtype) continue;
      std::memmove(pair.out.data,
                   static_cast<const std::byte*>(pair.in.data) + rank() * pair.out.bytes(),
                   static_cast<std::size_t>(pair.out.bytes()));
    }
    return {};
  }
  Handle all_reduce(const Piece&, ReduceOp, const std::string&) override { return {}; }
  Handle broadcast(const Piece&, int, const std::string&) override { return {}; }
  Handle barrier(const std::string&) override { return {}; }
  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<LonelyCommunicator>(world_size_, look_);
  }

 private:
  const int world_size_;
  const std::function<void()> look_;
};

double allocated() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

// 13 M parameters: the engine's small change is far below 2 % of that.
RunPlan large_plan(int stage, int ranks, DType dtype) {
  RunPlan plan = small_plan(stage, ranks, dtype);
  plan.shape = {.vocabulary = 2000, .width = 512, .blocks = 7};
  plan.rows = ranks;
  plan.options.zero.reduce_bucket_numel = 3'000'000;
  plan.options.zero.prefetch_numel = 2'000'000;
  return plan;
}

// What torch itself keeps after a first use of an operator (packing buffers of its matrix
// products, say) is not the engine's.
void warm_up(const RunPlan& plan, DType dtype) {
  Model plain(plan.shape);
  if (dtype == DType::bf16) plain->to(torch::kBFloat16);
  for (int i = 0; i < 2; ++i) plain->loss(batch_of(1, 9, plan.shape.vocabulary, 0)).backward();
}

void expect_close(double measured, double ledger, const char* when) {
  EXPECT_NEAR(measured, ledger, 0.02 * ledger) << when;
}

void measure(int stage, int ranks, DType dtype) {
  SCOPED_TRACE(testing::Message() << "stage " << stage << ", ranks " << ranks << ", "
                                  << name_of(dtype));
  const RunPlan plan = large_plan(stage, ranks, dtype);
  warm_up(plan, dtype);
  std::function<void()> look = [] {};
  LonelyCommunicator comm(ranks, [&] { look(); });
  const double before = allocated();
  Model model(plan.shape);
  set_parameters(*model, 1);
  Engine engine(model, plan.options, comm);
  const auto ledger = [&] {
    return static_cast<double>(engine.core().memory().total(Tier::device));
  };
  expect_close(allocated() - before, ledger(), "when the engine is made");
  // Autograd's own: one gradient on its way to the engine.
  double gradient = 0.0;
  for (const torch::Tensor& parameter : model->parameters()) {
    gradient = std::max(gradient, static_cast<double>(parameter.nbytes()));
  }
  int looks = 0;
  look = [&] {
    ++looks;
    const double measured = allocated() - before;
    EXPECT_GE(measured, 0.98 * ledger()) << "while it trains";
    EXPECT_LE(measured - gradient, 1.02 * ledger()) << "while it trains";
  };
  for (int step = 0; step < 2; ++step) train_step(plan, model, engine, step);
  engine.finish();
  look = [] {};
  EXPECT_GE(looks, ranks > 1 ? 4 : 0);  // with one rank nothing is called
  expect_close(allocated() - before, ledger(), "after two steps");
  const Footprint planned = footprint(layout_of(engine.core()), footprint_options_of(plan.options));
  const auto peak = static_cast<double>(engine.core().memory().peak_total(Tier::device));
  EXPECT_EQ(peak, static_cast<double>(planned.total(Tier::device)));
}

class DISABLED_InAProcess : public testing::TestWithParam<int> {};

TEST_P(DISABLED_InAProcess, AllocatesWhatTheLedgerSays) {
  mallopt(M_MMAP_THRESHOLD, 64 * 1024);
  at::set_num_threads(1);
  for (const int ranks : {1, 4}) {
    for (const DType dtype : {DType::fp32, DType::bf16}) measure(GetParam(), ranks, dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, DISABLED_InAProcess, testing::Range(0, 4));

class Allocations : public testing::TestWithParam<int> {};

TEST_P(Allocations, AgreeWithTheLedger) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const Finished finished = run_program(
      self, "--gtest_also_run_disabled_tests --gtest_filter='Stages/DISABLED_InAProcess.*/" +
                std::to_string(GetParam()) + "'");
  EXPECT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  EXPECT_NE(finished.out.find("[  PASSED  ] 1 test"), std::string::npos) << finished.out;
}

INSTANTIATE_TEST_SUITE_P(Stages, Allocations, testing::Range(0, 4));

}  // namespace
}  // namespace zeroshard::test
