// Sums that are made on devices take memory there: the engine has it, the ledger counts it, the
// plan knows of it to the byte, and reductions are given it.
#include <algorithm>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

// Says that its sums are made on the device, and looks whether each brings the memory for that.
class DeviceSummer final : public Communicator {
 public:
  DeviceSummer(std::unique_ptr<Communicator> inner, DeviceSums sums, std::int64_t& most)
      : inner_(std::move(inner)), sums_(sums), most_(most) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  DeviceSums device_sums() const override { return sums_; }
  Handle all_gather_into(const std::vector<GatherPair>& pairs, const std::string& label) override {
    return inner_->all_gather_into(pairs, label);
  }
  Handle reduce_scatter_into(const std::vector<ReducePair>& pairs, const ReduceOptions& options,
                             const std::string& label) override {
    std::vector<SummedPart> parts;
    for (const ReducePair& pair : pairs) {
      parts.push_back({pair.out.count, pair.in.dtype, pair.out.dtype});
    }
    const std::int64_t needs = sum_scratch_bytes(parts, {.sums = sums_,
                                                         .ranks = world_size(),
                                                         .scale = options.scale,
                                                         .accumulates = options.accumulate});
    EXPECT_LE(needs, options.scratch_bytes) << label;
    EXPECT_EQ(options.scratch == nullptr, options.scratch_bytes == 0);
    most_ = std::max(most_, needs);
    return inner_->reduce_scatter_into(pairs, options, label);
  }
  Handle all_reduce(const Piece& piece, ReduceOp op, const std::string& label) override {
    return inner_->all_reduce(piece, op, label);
  }
  Handle broadcast(const Piece& piece, int root, const std::string& label) override {
    return inner_->broadcast(piece, root, label);
  }
  Handle barrier(const std::string& label) override { return inner_->barrier(label); }
  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<DeviceSummer>(inner_->make_sibling(), sums_, most_);
  }

 private:
  const std::unique_ptr<Communicator> inner_;
  const DeviceSums sums_;
  std::int64_t& most_;
};

void check(const RunPlan& plan, DeviceSums sums) {
  run_ranks(plan.ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& threads) {
    std::int64_t most = 0;
    DeviceSummer comm(threads.make_sibling(), sums, most);
    Model model(plan.shape);
    set_parameters(*model, 1);
    Engine engine(model, plan.options, comm);
    const Core& core = engine.core();
    EXPECT_EQ(core.options().sums, sums);
    FootprintOptions options = footprint_options_of(plan.options);
    options.sums = sums;
    const Footprint planned = footprint(layout_of(core), options);
    const auto expect_planned = [&](const char* when) {
      EXPECT_EQ(core.memory().bytes(Category::buffers, Tier::device),
                planned.bytes(Category::buffers, Tier::device))
          << when;
      EXPECT_EQ(core.memory().peak(Category::buffers, Tier::device),
                planned.bytes(Category::buffers, Tier::device))
          << when;
    };
    expect_planned("at rest");
    train_step(plan, model, engine, 0);
    train_step(plan, model, engine, 1);
    engine.finish();
    expect_planned("after training");
    EXPECT_EQ(most, planned.buffers(BufferUse::sums, Tier::device)) << "no more than is needed";
  });
}

TEST(SumScratch, IsThePlan) {
  for (int stage = 0; stage < 4; ++stage) {
    for (const int ranks : {2, 3}) {
      for (const std::int64_t micro_steps : {1, 2}) {
        for (const DeviceSums sums : {DeviceSums::library, DeviceSums::rank_order}) {
          SCOPED_TRACE(testing::Message() << "stage " << stage << ", " << ranks << " ranks, a = "
                                          << micro_steps << ", sums " << static_cast<int>(sums));
          RunPlan plan = small_plan(stage, ranks, DType::bf16, micro_steps);
          check(plan, sums);
          plan.options.zero.reduce_bucket_numel = 1'000'000;  // one bucket for all
          check(plan, sums);
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeroshard::test
