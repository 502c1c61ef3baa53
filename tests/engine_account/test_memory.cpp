// What the ledger says is held is what the planner said would be, by category and to the byte: at
// rest, and never more in forward, backward and step.
#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

struct Case {
  const char* name;
  std::function<void(EngineOptions&)> change;
};

std::vector<Case> cases() {
  const auto precision = [](auto change) {
    return [change](EngineOptions& options) { change(options.precision); };
  };
  const auto zero = [](auto change) {
    return [change](EngineOptions& options) { change(options.zero); };
  };
  return {
      {"fp32", [](EngineOptions&) {}},
      {"bf16", precision([](PrecisionOptions& p) { p.bf16.enabled = true; })},
      {"fp16 with fp32 in between", precision([](PrecisionOptions& p) {
         p.fp16.enabled = true;
         p.grad_accum_dtype = DType::fp32;
       })},
      {"bf16 with fp32 in between", precision([](PrecisionOptions& p) {
         p.bf16.enabled = true;
         p.grad_accum_dtype = DType::fp32;
       })},
      {"bf16 with fp32 in between, divided first", precision([](PrecisionOptions& p) {
         p.bf16.enabled = true;
         p.grad_accum_dtype = DType::fp32;
         p.gradient_predivide_factor = 2.0;
       })},
      {"bf16 that travels as fp32", precision([](PrecisionOptions& p) {
         p.bf16.enabled = true;
         p.communication_data_type = DType::fp32;
       })},
      {"fp32 that travels as bf16",
       precision([](PrecisionOptions& p) { p.communication_data_type = DType::bf16; })},
      {"overlap", zero([](ZeroOptions& z) { z.overlap_comm = true; })},
      {"no overlap, a bucket per unit", zero([](ZeroOptions& z) {
         z.overlap_comm = false;
         z.reduce_bucket_numel = 0;
       })},
      {"one bucket for all", zero([](ZeroOptions& z) { z.reduce_bucket_numel = 1'000'000; })},
      {"no prefetch", zero([](ZeroOptions& z) { z.prefetch_numel = 0; })},
      {"much prefetch", zero([](ZeroOptions& z) { z.prefetch_numel = 1'000'000; })},
      {"much prefetch, few live", zero([](ZeroOptions& z) {
         z.prefetch_numel = 1'000'000;
         z.max_live_numel = 8000;
       })},
      {"persistent units", zero([](ZeroOptions& z) { z.persistence_numel = 900; })},
      {"one persistent unit", zero([](ZeroOptions& z) {
         z.persistence_numel = 900;
         z.model_persistence_numel = 900;
       })},
      {"all persistent", zero([](ZeroOptions& z) { z.persistence_numel = 100'000; })},
      {"bf16, optimizer on the host",
       [](EngineOptions& options) {
         options.precision.bf16.enabled = true;
         options.offload.optimizer = Tier::host;
       }},
      {"fp32, optimizer on the host",
       [](EngineOptions& options) { options.offload.optimizer = Tier::host; }},
      {"bf16, updates one step late",
       [](EngineOptions& options) {
         options.precision.bf16.enabled = true;
         options.offload.optimizer = Tier::host;
         options.zero.delayed_update = true;
       }},
      {"fp32, updates one step late on an unpinned host",
       [](EngineOptions& options) {
         options.offload = {.optimizer = Tier::host, .pin_optimizer_memory = false};
         options.zero.delayed_update = true;
       }},
      {"bf16, half of the optimizer and all parameters on the host",
       [](EngineOptions& options) {
         options.precision.bf16.enabled = true;
         options.offload = {.optimizer = Tier::host, .optimizer_ratio = 0.5};
         if (options.zero.stage == 3) options.offload.parameters = Tier::host;
       }},
      {"fp16 added up in fp32, all on the host",
       [](EngineOptions& options) {
         options.precision.fp16.enabled = true;
         options.precision.grad_accum_dtype = DType::fp32;
         options.offload.optimizer = Tier::host;
         if (options.zero.stage == 3) options.offload.parameters = Tier::host;
       }},
      {"SGD without a moment",
       [](EngineOptions& options) { options.parameter_groups = {SgdOptions{.lr = 0.1}}; }},
  };
}

void expect_planned(const Core& core, const Footprint& plan, Tier tier, const char* when) {
  for (const Category category : kCategories) {
    const std::int64_t now = core.memory().bytes(category, tier);
    // Gradients that are held, or on their way to the host, are there in a step only.
    const bool some_are_away = plan.bytes(Category::moments, Tier::host) > 0;
    const bool is_between_steps =
        category == Category::gradients && tier == Tier::device && (now == 0 || some_are_away);
    if (!is_between_steps) {
      EXPECT_EQ(now, plan.bytes(category, tier)) << name_of(category) << " " << when;
    }
    EXPECT_LE(core.memory().peak(category, tier), plan.bytes(category, tier))
        << name_of(category) << " at most, " << when;
  }
}

void expect_planned(const Core& core, const Footprint& plan, const char* when) {
  expect_planned(core, plan, Tier::device, when);
  expect_planned(core, plan, Tier::host, std::string(when).append(", on the host").c_str());
}

// Gathered now, not counting those that always are.
std::int64_t live_bytes(const Core& core) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < core.units(); ++i) {
    const FlatUnit& unit = core.unit(i);
    if (!unit.resident() && unit.state() != ParameterState::sharded) bytes += unit.gathered_bytes();
  }
  return bytes;
}

void check_run(const RunPlan& plan, const Prepare& prepare = {}) {
  with_engine(plan, prepare, [&](Model& model, Engine& engine, Communicator&) {
    const Core& core = engine.core();
    const Footprint planned = footprint(layout_of(core), footprint_options_of(plan.options));
    expect_planned(core, planned, "before the first step");
    core.memory().forget_peaks();
    for (int step = 0; step < 2; ++step) {
      train_step(plan, model, engine, step);
      EXPECT_EQ(live_bytes(core), 0) << "after a step";
      const torch::NoGradGuard no_grad;
      model->loss(batch_of(2, 9, plan.shape.vocabulary, 7));
    }
    engine.finish();
    EXPECT_EQ(live_bytes(core), 0);
    expect_planned(core, planned, "after training");
  });
}

class Memory : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(Memory, IsThePlan) {
  const auto [stage, ranks] = GetParam();
  for (const Case& each : cases()) {
    for (const std::int64_t micro_steps : {1, 2}) {
      SCOPED_TRACE(testing::Message() << each.name << ", a = " << micro_steps);
      RunPlan plan = small_plan(stage, ranks, DType::fp32, micro_steps);
      each.change(plan.options);
      check_run(plan);
    }
  }
}

TEST_P(Memory, IsThePlanWithFrozenAndRecomputedUnits) {
  const auto [stage, ranks] = GetParam();
  RunPlan plan = small_plan(stage, ranks, DType::bf16, 2);
  plan.shape.checkpoint = true;
  check_run(plan, [](Model& model) {
    for (torch::Tensor& parameter : model->blocks[1]->parameters()) {
      parameter.requires_grad_(false);
    }
    model->blocks[0]->up->weight.requires_grad_(false);
  });
}

// Units that are made one by one count for the limit on persistent ones in the same order.
TEST_P(Memory, IsThePlanUnderInit) {
  const auto [stage, ranks] = GetParam();
  RunPlan plan = small_plan(stage, ranks);
  plan.options.zero.persistence_numel = 900;        // embedding and head are below
  plan.options.zero.model_persistence_numel = 900;  // one of them
  run_ranks(ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    Model model = nullptr;
    {
      const Init scope(plan.options, comm);
      model = Model(plan.shape);
    }
    Engine engine(model, plan.options, comm);
    const Core& core = engine.core();
    const Footprint planned = footprint(layout_of(core), footprint_options_of(plan.options));
    expect_planned(core, planned, "under Init");
    train_step(plan, model, engine, 0);
    engine.finish();
    expect_planned(core, planned, "after a step");
    if (stage < 3 || ranks == 1) return;
    std::vector<std::string> persistent;
    for (std::size_t i = 0; i < core.units(); ++i) {
      if (core.unit(i).resident()) persistent.push_back(core.unit(i).name());
    }
    EXPECT_EQ(persistent, (std::vector<std::string>{"root", "tokens"}));
  });
}

INSTANTIATE_TEST_SUITE_P(StagesAndRanks, Memory,
                         testing::Combine(testing::Range(0, 4), testing::Values(1, 2, 3, 4)));

// A second backward in one step adds up in fp32: the only memory that no plan can foresee.
TEST(MemoryOfASecondBackward, IsOnceAndKept) {
  const RunPlan plan = small_plan(2, 2, DType::bf16);
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator&) {
    const auto held = [&] { return engine.core().memory().total(Tier::device); };
    const std::int64_t before = held();
    std::int64_t after_first = 0;
    for (int step = 0; step < 3; ++step) {
      engine.backward(model->loss(batch_of(4, 9, plan.shape.vocabulary, 3)));
      engine.backward(model->loss(batch_of(4, 9, plan.shape.vocabulary, 4)));
      engine.step();
      if (step == 0) after_first = held();
    }
    EXPECT_GT(after_first, before);
    EXPECT_EQ(held(), after_first);
  });
}

}  // namespace
}  // namespace zeroshard::test
