// zeroshard.delayed_update against an optimizer of the test's own, which hands each step's values
// over one step later; and against training without a delay, where somebody reads after each step.
#include <algorithm>
#include <cstring>
#include <memory>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/device/stalls.h"
#include "zeroshard/engine/host_updates.h"

namespace zeroshard::test {
namespace {

constexpr float kRate = 1.0F / 16;  // a power of two: lr * gradient is exact, whoever multiplies

struct Seen {
  std::vector<double> losses;
  std::vector<double> weights, states;  // at the end

  bool operator==(const Seen&) const = default;
};
using SeenByRank = std::vector<Seen>;

RunPlan plan_of(int stage, int ranks, DType dtype, std::int64_t micro_steps) {
  RunPlan plan = small_plan(stage, ranks, dtype, micro_steps);
  plan.options.precision.fp16.initial_scale_power = 8;
  plan.options.precision.gradient_clipping = 0.0;
  plan.options.parameter_groups = {SgdOptions{.lr = kRate}};
  return plan;
}

RunPlan delayed(RunPlan plan, double ratio = 1.0) {
  plan.options.offload.optimizer = Tier::host;
  plan.options.offload.optimizer_ratio = ratio;
  plan.options.zero.delayed_update = true;
  return plan;
}

// What every run here does; `after_step` may look at the engine.
Seen train_and_look(const RunPlan& plan, Model& model, Engine& engine, int rank,
                    const std::function<void()>& after_step) {
  Seen seen;
  const std::int64_t rows = plan.rows / plan.ranks;
  const auto micro_steps = static_cast<int>(plan.options.accumulation_steps);
  for (int i = 0; i < plan.steps * micro_steps; ++i) {
    const auto batch = batch_of(plan.rows, 9, plan.shape.vocabulary, static_cast<std::uint64_t>(i));
    const torch::Tensor loss = model->loss(batch.narrow(0, rank * rows, rows));
    engine.backward(loss);
    if (engine.step().boundary && after_step) after_step();
    seen.losses.push_back(loss.item<double>());
  }
  return seen;
}

std::vector<double> weights_of(Engine& engine) {
  std::vector<double> all;
  engine.visit_parameters([&](const std::string&, const at::Tensor& full) {
    const at::Tensor flat = full.detach().to(at::kDouble).reshape({-1}).contiguous();
    all.insert(all.end(), flat.const_data_ptr<double>(),
               flat.const_data_ptr<double>() + flat.numel());
  });
  return all;
}

SeenByRank trained(const RunPlan& plan, bool reads_after_steps = false) {
  SeenByRank all(static_cast<std::size_t>(plan.ranks));
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
    const std::function<void()> finish = [&engine] { engine.finish(); };
    Seen& seen = all[static_cast<std::size_t>(comm.rank())];
    seen = train_and_look(plan, model, engine, comm.rank(), reads_after_steps ? finish : nullptr);
    seen.weights = weights_of(engine);
    seen.states = states_of(engine);
  });
  return all;
}

// Plain descent whose results become the engine's masters one step later.
class LateDescent {
 public:
  void begin(Core& core) {
    for (const MasterSegment& segment : core.master_segments()) {
      shown_.push_back(segment.master);
      newest_.push_back(segment.master.clone());
    }
  }
  void step(const std::vector<at::Tensor>& gradients) {
    hand_over();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) newest_[i].sub_(gradients[i], kRate);
    }
  }
  void hand_over() {
    for (std::size_t i = 0; i < shown_.size(); ++i) shown_[i].copy_(newest_[i]);
  }

 private:
  std::vector<at::Tensor> shown_, newest_;
};

SeenByRank descended_late(const RunPlan& plan) {
  SeenByRank all(static_cast<std::size_t>(plan.ranks));
  run_ranks(plan.ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    at::set_num_threads(1);
    const auto late = std::make_shared<LateDescent>();
    EngineOptions options = plan.options;
    options.update = [late](const std::vector<at::Tensor>& gradients) { late->step(gradients); };
    Model model(plan.shape);
    set_parameters(*model, 1);
    Engine engine(model, options, comm);
    late->begin(engine.core());
    Seen& seen = all[static_cast<std::size_t>(comm.rank())];
    seen = train_and_look(plan, model, engine, comm.rank(), {});
    late->hand_over();
    engine.core().adopt_masters(std::nullopt);
    seen.weights = weights_of(engine);
  });
  return all;
}

class DelayedUpdate : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(DelayedUpdate, IsOneStepLateAndComplete) {
  const auto [stage, ranks] = GetParam();
  for (const DType dtype : {DType::fp32, DType::fp16}) {
    for (const std::int64_t micro_steps : {1, 3}) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << ", a = " << micro_steps);
      const RunPlan plan = plan_of(stage, ranks, dtype, micro_steps);
      const SeenByRank expected = descended_late(plan), found = trained(delayed(plan));
      for (std::size_t rank = 0; rank < expected.size(); ++rank) {
        EXPECT_EQ(found[rank].losses, expected[rank].losses);
        EXPECT_EQ(found[rank].weights, expected[rank].weights);
      }
      EXPECT_NE(found[0].losses, trained(plan)[0].losses);
    }
  }
}

// Whoever finishes after each step trains without a delay.
TEST_P(DelayedUpdate, IsDoneWhenSomebodyFinishes) {
  const auto [stage, ranks] = GetParam();
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const double ratio : {1.0, 0.4}) {
      RunPlan plan = plan_of(stage, ranks, dtype, 1);
      plan.options.parameter_groups = {AdamOptions{.lr = 1e-2, .weight_decay = 0.1}};
      EXPECT_EQ(trained(delayed(plan, ratio), true), trained(plan)) << name_of(dtype) << ratio;
    }
  }
}

// With several micro-steps, gradients pass through the host while the update of the step before
// goes on. That updates may begin early as well changes nothing.
TEST_P(DelayedUpdate, StallsChangeNoBit) {
  const auto [stage, ranks] = GetParam();
  for (const std::int64_t micro_steps : {1, 2}) {
    SCOPED_TRACE(testing::Message() << "a = " << micro_steps);
    RunPlan plan = delayed(small_plan(stage, ranks, DType::bf16, micro_steps), 0.7);
    plan.options.zero.speculative_update = micro_steps > 1;
    plan.steps = 60;
    const SeenByRank expected = trained(plan);
    const RandomStalls stalls({.seed = 23, .one_in = 8, .at_most = std::chrono::microseconds(300)});
    EXPECT_EQ(trained(plan), expected);
  }
}

// Gradients of the next step pass through the ring while such an update goes on, on another thread.
TEST(AnUpdateAlone, LeavesTheRingToGradients) {
  constexpr std::int64_t kCount = 5000, kSlotBytes = 4096;
  StateMemory memory(kCpu);
  ThreadPool pool(1);
  SlotRing ring({kSlotBytes, 3, 3 * kSlotBytes}, Tier::host, memory);
  for (int i = 0; i < 3; ++i) std::memset(ring.next().data(), 0x5a, kSlotBytes);
  std::vector<float> gradient(kCount, 1.0F), master(kCount, 2.0F);
  std::vector<std::uint16_t> parameter(kCount, 7);
  const auto settings = std::make_shared<const UpdateSettings>(
      UpdateSettings{.parameter_groups = {SgdOptions{.lr = kRate}}});
  HostUpdates updates(kCpu, ring,
                      memory.allocate_apart(Category::buffers, Tier::host, 1000, /*pin=*/false),
                      pool, nullptr);
  updates.begin_step();
  updates
      .update({.segments = {{.options = &settings->parameter_groups[0],
                             .span = {.gradient = gradient.data(),
                                      .master = master.data(),
                                      .parameter = parameter.data(),
                                      .count = kCount},
                             .scalars = {.gradient_factor = 1.0F, .step = 1}}},
               .settings = settings,
               .part = HostUpdates::Part::update})
      .wait();
  EXPECT_EQ(master, std::vector<float>(kCount, 2.0F - kRate));
  EXPECT_EQ(parameter, std::vector<std::uint16_t>(kCount, 7));
  for (int i = 0; i < 3; ++i) {
    const auto* const bytes = static_cast<const unsigned char*>(ring.next().data());
    EXPECT_EQ(std::count(bytes, bytes + kSlotBytes, 0x5a), kSlotBytes) << "slot " << i;
  }
}

// Values that somebody asks for between a forward and its backward are not those that the forward
// has read, and autograd cannot notice.
TEST_P(DelayedUpdate, AGraphIsTooOldOnceValuesHaveLanded) {
  const auto [stage, ranks] = GetParam();
  const RunPlan plan = delayed(plan_of(stage, ranks, DType::bf16, 1));
  using Ask = std::function<void(Engine&)>;
  for (const Ask& ask : {Ask([](Engine& engine) { engine.finish(); }),
                         Ask([](Engine& engine) { engine.full_params(); })}) {
    with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
      train_and_look(plan, model, engine, comm.rank(), {});
      const std::int64_t rows = plan.rows / plan.ranks;
      const auto loss = [&] {
        const auto batch = batch_of(plan.rows, 9, plan.shape.vocabulary, 77);
        return model->loss(batch.narrow(0, comm.rank() * rows, rows));
      };
      const torch::Tensor too_old = loss();
      ask(engine);
      EXPECT_THROW(engine.backward(too_old), StateError);
      const torch::Tensor newer = loss();
      ask(engine);  // nothing was under way
      engine.backward(newer);
      EXPECT_TRUE(engine.step().applied);
    });
  }
}

// Nobody asked for the last values.
TEST_P(DelayedUpdate, AnEngineMayEndInTheMidst) {
  const auto [stage, ranks] = GetParam();
  const RunPlan plan = delayed(plan_of(stage, ranks, DType::bf16, 1));
  const RandomStalls stalls({.seed = 5, .one_in = 2, .at_most = std::chrono::microseconds(900)});
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
    EXPECT_EQ(train_and_look(plan, model, engine, comm.rank(), {}).losses.size(), 10U);
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, DelayedUpdate,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2)));

}  // namespace
}  // namespace zeroshard::test
