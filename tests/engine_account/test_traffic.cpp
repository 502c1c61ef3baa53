// What each rank sends in a step is DESIGN section 4's table, to the byte; and in as many
// collectives as the planner's model of scale has.
#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "zeroshard/layout/traffic.h"
#include "zeroshard/planner/step_messages.h"

namespace zeroshard::test {
namespace {

// Blocks have 3600 elements, embedding and head 888.
constexpr std::int64_t kSmallUnit = 900;
constexpr std::int64_t kTwoBlocks = 8500;  // padded

struct Case {
  const char* name;
  std::function<void(EngineOptions&)> change = [](EngineOptions&) {};
  Prepare prepare = {};
};

void freeze(torch::nn::Module& module) {
  for (torch::Tensor& parameter : module.parameters()) parameter.requires_grad_(false);
}

std::vector<Case> cases() {
  return {
      {"plain"},
      {"a bucket for each unit",
       [](EngineOptions& options) { options.zero.reduce_bucket_numel = 0; }},
      {"buckets of several units",
       [](EngineOptions& options) { options.zero.reduce_bucket_numel = kTwoBlocks; }},
      {"one bucket", [](EngineOptions& options) { options.zero.reduce_bucket_numel = 1 << 30; }},
      {"persistent units",
       [](EngineOptions& options) { options.zero.persistence_numel = kSmallUnit; }},
      {"some persistent units",
       [](EngineOptions& options) {
         options.zero.persistence_numel = kSmallUnit;
         options.zero.model_persistence_numel = kSmallUnit;  // of two, the first alone
       }},
      {"frozen units and groups", [](EngineOptions&) {},
       [](Model& model) {
         freeze(*model->blocks[1]);
         freeze(*model->blocks[0]->up);
       }},
      {"a frozen first unit that is persistent",
       [](EngineOptions& options) { options.zero.persistence_numel = kSmallUnit; },
       [](Model& model) { freeze(*model->tokens); }},
      {"a frozen root", [](EngineOptions&) {}, [](Model& model) { freeze(*model->norm); }},
      {"bf16 that travels as fp32",
       [](EngineOptions& options) {
         options.precision.bf16.enabled = true;
         options.precision.communication_data_type = DType::fp32;
       }},
      {"bf16 kept in fp32",
       [](EngineOptions& options) {
         options.precision.bf16.enabled = true;
         options.precision.grad_accum_dtype = DType::fp32;
       }},
  };
}

// Summed here over units and groups, by hand; the planner has its own sum.
TrafficBytes expected(const Core& core, const EngineOptions& options, std::size_t unit) {
  const Stage& stage = stage_row(options.zero.stage);
  const bool adds_up =
      options.accumulation_steps > 1 && stage.gradients_accumulating == Placement::sharded;
  TrafficBytes sum;
  for (const FlatGroup& group : core.unit(unit).layout().groups()) {
    const Traffic traffic =
        traffic_per_step(stage, static_cast<int>(options.accumulation_steps),
                         {.trainable = group.trainable, .released = !core.unit(unit).resident()});
    const TrafficBytes bytes =
        bytes_sent(group.layout, traffic,
                   {.parameters = group.dtype,
                    .reduced = options.precision.communication(),
                    .gathered_gradients = options.precision.reduced(adds_up)});
    sum.reduce += bytes.reduce;
    sum.gather += bytes.gather;
  }
  return sum;
}

void check_step(Engine& engine, const RunPlan& plan) {
  TrafficLedger& ledger = engine.core().traffic();
  TrafficBytes all;
  for (std::size_t unit = 0; unit < engine.core().units(); ++unit) {
    const TrafficBytes of_unit = expected(engine.core(), plan.options, unit);
    const std::string& name = engine.core().unit(unit).name();
    EXPECT_EQ(ledger.entry(Operation::all_gather, name).bytes, of_unit.gather) << name;
    all.reduce += of_unit.reduce;
    all.gather += of_unit.gather;
  }
  EXPECT_EQ(ledger.bytes(Operation::reduce_scatter), all.reduce);
  const std::int64_t norm = ledger.entry(Operation::all_gather, "norm").bytes;
  EXPECT_EQ(ledger.bytes(Operation::all_gather) - norm, all.gather);
  EXPECT_EQ(ledger.bytes(Operation::all_reduce), 0);
  const std::int64_t order = ledger.entry(Operation::broadcast, "order").bytes;
  EXPECT_EQ(ledger.bytes(Operation::broadcast), order);
  const ModelLayout model = layout_of(engine.core());
  EXPECT_EQ(bytes_sent_per_step(model, footprint_options_of(plan.options)),
            all.reduce + all.gather);
}

// By unit and by bucket: how often, and the bytes of one of them.
void check_messages(Engine& engine, const RunPlan& plan) {
  TrafficLedger& ledger = engine.core().traffic();
  const StepMessages messages =
      step_messages(layout_of(engine.core()), footprint_options_of(plan.options));
  if (plan.ranks == 1) {
    EXPECT_EQ(messages.collectives(), 0);
    EXPECT_EQ(ledger.bytes(), 0);
    return;
  }
  for (std::size_t i = 0; i < messages.units.size(); ++i) {
    const UnitMessages& unit = messages.units[i];
    const auto entry =
        ledger.entry(Operation::all_gather, std::string(engine.core().unit(i).name()));
    EXPECT_EQ(entry.calls, unit.parameter_gathers + unit.gradient_gathers);
    EXPECT_EQ(entry.bytes, unit.parameter_gathers * unit.parameter_bytes +
                               unit.gradient_gathers * unit.gradient_bytes);
  }
  std::int64_t calls = 0, reduces = 0, reduced_bytes = 0;
  for (const auto& [key, entry] : ledger.entries()) {
    const bool agrees_on_order = key.first == Operation::broadcast;
    calls += agrees_on_order ? 0 : entry.calls;
    reduces += key.first == Operation::reduce_scatter ? entry.calls : 0;
  }
  for (const BucketMessages& bucket : messages.buckets) {
    reduced_bytes += bucket.reduces * bucket.bytes;
  }
  EXPECT_EQ(reduces, messages.reduces());
  EXPECT_EQ(ledger.bytes(Operation::reduce_scatter), reduced_bytes);
  EXPECT_EQ(calls, messages.collectives());
}

class Traffic : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(Traffic, IsTheTable) {
  const auto [stage, ranks] = GetParam();
  for (const Case& each : cases()) {
    for (const std::int64_t micro_steps : {1, 3}) {
      RunPlan plan = small_plan(stage, ranks, DType::fp32, micro_steps);
      each.change(plan.options);
      with_engine(plan, each.prepare, [&](Model& model, Engine& engine, Communicator&) {
        for (int step = 0; step < 3; ++step) {
          SCOPED_TRACE(testing::Message()
                       << each.name << ", step " << step << " of a = " << micro_steps);
          engine.core().traffic().clear();
          ASSERT_TRUE(train_step(plan, model, engine, step).applied);
          engine.finish();
          check_step(engine, plan);
          check_messages(engine, plan);
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(StagesAndRanks, Traffic,
                         testing::Combine(testing::Range(0, 4), testing::Range(1, 9)));

// The messages of agreement are small and do not grow with the parameters' sizes.
TEST(TrafficOfAgreement, IsSmall) {
  const RunPlan plan = small_plan(3, 3);
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator&) {
    train_step(plan, model, engine, 0);
    engine.core().traffic().clear();
    train_step(plan, model, engine, 1);
    std::int64_t parameters = 0;
    for (std::size_t i = 0; i < engine.core().units(); ++i) {
      parameters += static_cast<std::int64_t>(engine.core().unit(i).parameters().size());
    }
    // A sum, a flag, a bit's byte for each parameter; to both others. Orders are agreed once.
    EXPECT_EQ(engine.core().traffic().entry(Operation::all_gather, "norm").bytes,
              2 * (8 + 1 + parameters));
    EXPECT_EQ(engine.core().traffic().entry(Operation::broadcast, "order").calls, 0);
  });
}

}  // namespace
}  // namespace zeroshard::test
