// Where all of G is wanted (stage 0), what makes a bucket's sums whole is on its way while backward
// goes on, and has not to wait for the norm. When it is, and changes no bit, is held by the parity
// and delay tests.
#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"

namespace zeroshard::test {
namespace {

// How many units' gradients, or parameters, have been gathered so far.
std::int64_t gathered(Core& core) {
  std::int64_t calls = 0;
  for (std::size_t unit = 0; unit < core.units(); ++unit) {
    calls += core.traffic().entry(Operation::all_gather, core.unit(unit).name()).calls;
  }
  return calls;
}

struct Gathers {
  std::int64_t behind_backward = 0;
  std::int64_t in_all = 0;
  std::int64_t units = 0;
};

Gathers gathers_of(int stage, int ranks, const std::function<void(EngineOptions&)>& change) {
  RunPlan plan = small_plan(stage, ranks, DType::fp32, 1);
  plan.options.zero.overlap_comm = true;
  plan.options.zero.reduce_bucket_numel = 0;  // a bucket for each unit
  change(plan.options);
  Gathers seen;
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
    const auto batch = batch_of(plan.rows, 9, plan.shape.vocabulary, 1);
    const std::int64_t rows = plan.rows / plan.ranks;
    engine.backward(model->loss(batch.narrow(0, comm.rank() * rows, rows)));
    const std::int64_t behind_backward = gathered(engine.core());
    engine.step();
    if (comm.rank() != 0) return;
    seen = {behind_backward, gathered(engine.core()),
            static_cast<std::int64_t>(engine.core().units())};
  });
  return seen;
}

TEST(GathersBehind, AllBucketsButTheLast) {
  for (const int ranks : {2, 3}) {
    const Gathers seen = gathers_of(0, ranks, [](EngineOptions&) {});
    EXPECT_EQ(seen.behind_backward, seen.units - 1);
    EXPECT_EQ(seen.in_all, seen.units) << "each once";
  }
}

TEST(GathersBehind, NoneWithoutOverlapNorOfSumsOnTheHost) {
  const auto none = {+[](EngineOptions& options) { options.zero.overlap_comm = false; },
                     +[](EngineOptions& options) { options.offload.optimizer = Tier::host; }};
  for (const auto& change : none) {
    const Gathers seen = gathers_of(0, 2, change);
    EXPECT_EQ(seen.behind_backward, 0);
    EXPECT_EQ(seen.in_all, seen.units);
  }
}

TEST(GathersBehind, NoneWhereEachRankWantsItsOwn) {
  EXPECT_EQ(gathers_of(1, 2, [](EngineOptions&) {}).behind_backward, 0);
  EXPECT_EQ(gathers_of(2, 2, [](EngineOptions&) {}).behind_backward, 0);
}

}  // namespace
}  // namespace zeroshard::test
