// Updates that begin before the norm is known: nobody sees them before the step, and what they were
// wrong about is taken back to the bit.
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "tests/engine_account/linear_model.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/engine/core_states.h"
#include "zeroshard/engine/speculation_policy.h"
#include "zeroshard/engine/tensors.h"

namespace zeroshard::test {
namespace {

// What happened to early updates in a story, on rank 0.
struct Told {
  std::int64_t updated = 0, taken_back = 0;
};

struct Outcome {
  std::vector<std::vector<double>> states;  // by rank
  Told told;
};

using Story = std::function<void(const RunPlan&, Model&, Engine&)>;

Told told_of(Engine& engine) {
  SpeculativeUpdates* const early = engine.core().speculation();
  return early == nullptr ? Told{} : Told{early->updated(), early->taken_back()};
}

Outcome outcome_of(const RunPlan& plan, const Story& story) {
  Outcome outcome{.states = std::vector<std::vector<double>>(static_cast<std::size_t>(plan.ranks)),
                  .told = {}};
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
    story(plan, model, engine);
    if (comm.rank() == 0) outcome.told = told_of(engine);
    outcome.states[static_cast<std::size_t>(comm.rank())] = states_of(engine);
  });
  return outcome;
}

// Until some update has been made early, where the plan has memory for any.
void wait_for_early(Engine& engine, int at_most_ms = 10'000) {
  SpeculativeUpdates* const early = engine.core().speculation();
  for (int i = 0; early != nullptr && early->undecided() == 0 && i < at_most_ms; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

at::Tensor loss_of(const RunPlan& plan, Model& model, Engine& engine, int step) {
  const std::int64_t rows = plan.rows / plan.ranks;
  const auto batch =
      batch_of(plan.rows, 9, plan.shape.vocabulary, static_cast<std::uint64_t>(step));
  return model->loss(batch.narrow(0, engine.core().comm().rank() * rows, rows));
}

void train_steps(const RunPlan& plan, Model& model, Engine& engine, int from, int to) {
  for (int step = from; step < to; ++step) train_step(plan, model, engine, step);
}

class Speculation : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  RunPlan plan(bool early, DType dtype = DType::bf16) const {
    const auto [stage, ranks] = GetParam();
    RunPlan plan = small_plan(stage, ranks, dtype);
    plan.options.offload.optimizer = Tier::host;
    plan.options.zero.speculative_update = early;
    plan.options.precision.gradient_clipping = 0.0;
    return plan;
  }
  // Replicated gradients of several ranks are gathered after their reduction.
  bool can_begin() const {
    const auto [stage, ranks] = GetParam();
    return stage > 0 || ranks == 1;
  }

  Told expect_same(const Story& story, DType dtype = DType::bf16) {
    const Outcome plain = outcome_of(plan(false, dtype), story);
    const Outcome early = outcome_of(plan(true, dtype), story);
    EXPECT_EQ(early.states, plain.states);
    EXPECT_EQ(plain.told.updated + plain.told.taken_back, 0);
    return early.told;
  }
};

TEST_P(Speculation, IsTakenOverWhereNothingIsClipped) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    const Told told = expect_same([](const RunPlan& plan, Model& model,
                                     Engine& engine) { train_steps(plan, model, engine, 0, 8); },
                                  dtype);
    EXPECT_EQ(told.taken_back, 0);
    EXPECT_EQ(told.updated > 0, can_begin()) << name_of(dtype);
  }
}

// Between backward and step: whoever asks gets what was before, and the step is the same.
class SeenBetween : public Speculation {
 protected:
  using Look = std::function<void(const RunPlan&, Model&, Engine&)>;
  void expect_nobody_sees(const Look& look, bool takes_back = true) {
    const Told told = expect_same([&](const RunPlan& plan, Model& model, Engine& engine) {
      train_steps(plan, model, engine, 0, 2);
      for (int step = 2; step < 5; ++step) {
        const at::Tensor loss = loss_of(plan, model, engine, step);
        engine.backward(loss);
        wait_for_early(engine, step == 2 ? 10'000 : 2);  // after an undo none begins for some steps
        look(plan, model, engine);
        engine.step();
      }
    });
    EXPECT_EQ(told.taken_back > 0, takes_back && can_begin());
  }
};

TEST_P(SeenBetween, AReadOfStates) {
  expect_nobody_sees([](const RunPlan&, Model&, Engine& engine) {
    const OptimizerStates& states = engine.core().states();
    const at::Tensor before = states.masters(1, 0).clone();
    EXPECT_EQ(states.steps(1, 0) % 7, states.steps(0, 0) % 7);
    EXPECT_TRUE(states.masters(1, 0).equal(before));
  });
}

// Read before backward and again after it: the same numbers, to the bit.
TEST_P(SeenBetween, StatesAreThoseOfTheLastStep) {
  const RunPlan run = plan(true);
  with_engine(run, {}, [&](Model& model, Engine& engine, Communicator&) {
    train_steps(run, model, engine, 0, 2);
    const std::vector<double> before = states_of(engine);
    engine.backward(loss_of(run, model, engine, 2));
    wait_for_early(engine);
    EXPECT_EQ(states_of(engine), before);
    EXPECT_EQ(told_of(engine).taken_back > 0, can_begin());
  });
}

// What a save would write now.
std::vector<double> saved_by(Engine& engine) {
  const CoreStates states(engine.core());
  std::vector<double> all;
  for (const HeldState& state : states.owned()) {
    const at::Tensor values = at::empty({state.elements.size()}, to_torch(state.dtype));
    states.read(state, state.elements, values.mutable_data_ptr());
    const at::Tensor wide = values.to(at::kDouble);
    all.insert(all.end(), wide.const_data_ptr<double>(),
               wide.const_data_ptr<double>() + wide.numel());
  }
  for (const TensorRecord& tensor : states.tensors()) {
    all.push_back(static_cast<double>(tensor.updates));
  }
  return all;
}

TEST_P(SeenBetween, ASave) {
  const RunPlan run = plan(true);
  with_engine(run, {}, [&](Model& model, Engine& engine, Communicator&) {
    train_steps(run, model, engine, 0, 2);
    const std::vector<double> before = saved_by(engine);
    engine.backward(loss_of(run, model, engine, 2));
    wait_for_early(engine);
    EXPECT_EQ(saved_by(engine), before);
    EXPECT_EQ(told_of(engine).taken_back > 0, can_begin());
  });
  expect_nobody_sees([](const RunPlan&, Model&, Engine& engine) { saved_by(engine); });
}

TEST_P(SeenBetween, AReadOfGradients) {
  expect_nobody_sees(
      [](const RunPlan&, Model&, Engine& engine) { engine.core().finish_reductions(); });
}

// Whoever reads gradients may write them.
TEST_P(SeenBetween, AWriteOfGradients) {
  expect_nobody_sees([](const RunPlan&, Model&, Engine& engine) {
    engine.core().finish_reductions();
    for (const Reducer::UnitGradients& unit : engine.core().reducer().units()) {
      for (const GradientGroup& group : unit.groups) {
        const Piece own = group.own_reduced();
        auto* const bytes = static_cast<std::uint8_t*>(own.data);
        std::fill_n(bytes, own.count * bytes_of(own.dtype) / 2, std::uint8_t{0});
      }
    }
  });
}

TEST_P(SeenBetween, AnotherBackward) {
  expect_nobody_sees([](const RunPlan& plan, Model& model, Engine& engine) {
    engine.backward(loss_of(plan, model, engine, 40));
  });
}

TEST_P(SeenBetween, AnEvaluation) {
  expect_nobody_sees(
      [](const RunPlan& plan, Model& model, Engine& engine) {
        const at::NoGradGuard no_grad;
        const at::Tensor first = loss_of(plan, model, engine, 3);
        EXPECT_TRUE(first.equal(loss_of(plan, model, engine, 3)));
      },
      /*takes_back=*/false);
}

TEST_P(SeenBetween, OtherHyperParameters) {
  expect_nobody_sees([](const RunPlan&, Model&, Engine& engine) {
    std::get<AdamOptions>(engine.core().parameter_groups()[0]).lr *= 0.7;
  });
}

TEST_P(SeenBetween, WrittenParameters) {
  expect_nobody_sees([](const RunPlan&, Model&, Engine& engine) {
    const at::NoGradGuard no_grad;
    const auto scope = engine.full_params({.writes = true, .from = 0});
    for (const NamedParameter& parameter : engine.core().unit(1).parameters()) {
      parameter.tensor.data().view({-1})[0].fill_(0.25);
    }
  });
}

TEST_P(SeenBetween, OffloadedStates) {
  expect_nobody_sees([](const RunPlan&, Model&, Engine& engine) {
    engine.core().offload_states({});
    engine.core().reload_states();
  });
}

TEST_P(SeenBetween, AnExceptionInTheNextBackward) {
  const Told told = expect_same([](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 2);
    engine.backward(loss_of(plan, model, engine, 2));
    wait_for_early(engine);
    const at::Tensor loss = loss_of(plan, model, engine, 3);
    const at::Tensor broken = loss * 1.0;
    broken.register_hook([](const at::Tensor&) { throw std::runtime_error("broken"); });
    EXPECT_ANY_THROW(engine.backward(broken));
    train_steps(plan, model, engine, 4, 6);
  });
  EXPECT_EQ(told.taken_back > 0, can_begin());
}

TEST_P(SeenBetween, AnotherWordAboutTheBoundary) {
  expect_nobody_sees([](const RunPlan& plan, Model& model, Engine& engine) {
    engine.core().set_boundary(false);
    engine.step();
    engine.core().set_boundary({});
    engine.backward(loss_of(plan, model, engine, 41));
  });
}

// A rank that has no backward before its step brings zeros.
TEST_P(SeenBetween, AStepWithoutABackward) {
  expect_nobody_sees([](const RunPlan&, Model&, Engine& engine) {
    engine.core().set_boundary(false);
    engine.step();
    engine.core().set_boundary({});
  });
}

// Clipping acts in the first step, whose update is then taken back; the next ones wait and see.
TEST_P(Speculation, IsTakenBackWhereClippingActs) {
  const Story story = [](const RunPlan& plan, Model& model, Engine& engine) {
    engine.backward(loss_of(plan, model, engine, 0));
    wait_for_early(engine);
    engine.step();
    train_steps(plan, model, engine, 1, 6);
  };
  RunPlan plain = plan(false), early = plan(true);
  plain.options.precision.gradient_clipping = early.options.precision.gradient_clipping = 1e-3;
  const Outcome expected = outcome_of(plain, story), found = outcome_of(early, story);
  EXPECT_EQ(found.states, expected.states);
  EXPECT_EQ(found.told.taken_back > 0, can_begin());
  EXPECT_EQ(found.told.updated, 0);
  const Outcome longer = outcome_of(early, [](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 2);
    const Told so_far = told_of(engine);
    train_steps(plan, model, engine, 2, 12);
    EXPECT_EQ(told_of(engine).taken_back, so_far.taken_back) << "once was enough";
  });
  EXPECT_EQ(longer.told.updated, 0);
}

// A script that looks at masters before each step has every early update taken back: it pays for
// that a few times, and not for ever.
TEST_P(Speculation, EndsWhereSomebodyLooksBeforeEachStep) {
  const auto look_before_steps = [](const RunPlan& plan, Model& model, Engine& engine) {
    int undone = 0;
    for (int step = 0; step < 16; ++step) {
      const std::int64_t before = told_of(engine).taken_back;
      engine.backward(loss_of(plan, model, engine, step));
      wait_for_early(engine, step == 0 ? 10'000 : 5);
      engine.core().states();
      undone += told_of(engine).taken_back > before ? 1 : 0;
      engine.step();
    }
    EXPECT_LE(undone, 3) << "with 4 and 8 calm steps between";
  };
  EXPECT_EQ(expect_same(look_before_steps).taken_back > 0, can_begin());
}

// An overflow skips the step: nothing has moved, moments and step counts included.
TEST_P(Speculation, IsTakenBackWhereAStepIsSkipped) {
  const Told told = expect_same(
      [&](const RunPlan& plan, Model& model, Engine& engine) {
        train_steps(plan, model, engine, 0, 2);
        engine.finish();
        const std::vector<double> before = states_of(engine);
        const at::Tensor loss = loss_of(plan, model, engine, 2);
        engine.backward(loss * std::numeric_limits<float>::infinity());
        wait_for_early(engine);
        const bool begins = plan.options.zero.speculative_update == true && can_begin();
        EXPECT_FALSE(engine.step().applied);
        EXPECT_EQ(told_of(engine).taken_back > 0, begins) << "before anybody asks";
        EXPECT_EQ(states_of(engine), before);
        train_steps(plan, model, engine, 3, 5);
      },
      DType::fp16);
  EXPECT_EQ(told.taken_back > 0, can_begin());
}

// Only what its memory allows begins early, from the last unit on; the ledger holds what is
// planned.
TEST_P(Speculation, TakesNoMoreMemoryThanItIsGiven) {
  if (!can_begin()) return;
  const Story story = [](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 5);
  };
  const Outcome expected = outcome_of(plan(false), story);
  std::int64_t total = 0, units = 0;
  outcome_of(plan(true), [&](const RunPlan& plan, Model&, Engine& engine) {
    if (engine.core().comm().rank() != 0) return;
    const ModelLayout layout = layout_of(engine.core());
    total = tier_plan(layout, footprint_options_of(plan.options)).undo_bytes;
    units = static_cast<std::int64_t>(layout.units().size());
  });
  for (const std::int64_t limit : {total, total - 1, std::int64_t{0}}) {
    RunPlan limited = plan(true);
    limited.options.fit_memory = [limit](const EngineOptions&, const ModelLayout&, std::int64_t,
                                         Communicator&) {
      return FittedMemory{.undo_limit_bytes = limit};
    };
    const Outcome found =
        outcome_of(limited, [&](const RunPlan& plan, Model& model, Engine& engine) {
          story(plan, model, engine);
          FootprintOptions options = footprint_options_of(plan.options);
          options.undo_limit_bytes = limit;
          const ModelLayout layout = layout_of(engine.core());
          const Footprint planned = footprint(layout, options);
          EXPECT_EQ(engine.core().memory().bytes(Category::buffers, Tier::host),
                    planned.bytes(Category::buffers, Tier::host));
          const TierPlan tiers = tier_plan(layout, options);
          EXPECT_LE(tiers.undo_bytes, limit);
          const auto early =
              static_cast<std::int64_t>(layout.units().size() - tiers.first_undo_unit);
          EXPECT_LE(told_of(engine).updated, 5 * early);
          EXPECT_EQ(early == units, limit == total);
          EXPECT_EQ(early == 0, limit == 0);
        });
    EXPECT_EQ(found.states, expected.states) << limit;
  }
}

// A parameter without a gradient is left alone, and so its unit is updated in the step; which units
// that are changes from step to step.
TEST(SpeculationOfAbsentGradients, LeavesThemAlone) {
  for (const int stage : {1, 2, 3}) {
    std::vector<std::vector<double>> found[2];  // by rank
    for (const bool early : {false, true}) {
      found[early].resize(2);
      run_ranks(2, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
        EngineOptions options = small_plan(stage, 2, DType::bf16).options;
        options.offload.optimizer = Tier::host;
        options.zero.speculative_update = early;
        options.precision.gradient_clipping = 0.0;  // else the first step would end all of it
        LinearModel model;
        Engine engine(model, options, comm);
        for (int step = 0; step < 8; ++step) {
          std::vector<torch::Tensor> numbers = linear_numbers(comm.rank(), step);
          if (step % 3 == 1) numbers[1] = torch::Tensor();
          // Rank 1 owns a part of what only rank 0 has a gradient of.
          if (step % 4 == 2 || comm.rank() == 1) numbers[3] = torch::Tensor();
          engine.backward(model->loss(numbers));
          wait_for_early(engine, 100);
          engine.step();
        }
        EXPECT_EQ(told_of(engine).updated > 0, early);
        EXPECT_EQ(told_of(engine).taken_back, 0);
        found[early][static_cast<std::size_t>(comm.rank())] = states_of(engine);
      });
    }
    EXPECT_EQ(found[0], found[1]);
  }
}

// Where a parameter without any gradient is refused, the others' updates have begun by then.
TEST(SpeculationOfAbsentGradients, IsTakenBackWhereTheyAreRefused) {
  for (const int stage : {1, 2, 3}) {
    run_ranks(2, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
      EngineOptions options = small_plan(stage, 2, DType::bf16).options;
      options.offload.optimizer = Tier::host;
      options.zero.speculative_update = true;
      options.zero.ignore_unused_parameters = false;
      options.precision.gradient_clipping = 0.0;
      LinearModel model;
      Engine engine(model, options, comm);
      engine.backward(model->loss(linear_numbers(comm.rank(), 0)));
      engine.step();
      const std::vector<double> before = states_of(engine);
      std::vector<torch::Tensor> numbers = linear_numbers(comm.rank(), 1);
      numbers[3] = torch::Tensor();
      engine.backward(model->loss(numbers));
      wait_for_early(engine);
      const std::int64_t so_far = told_of(engine).taken_back;
      EXPECT_THROW(engine.step(), StateError);
      EXPECT_GT(told_of(engine).taken_back, so_far) << "before anybody asks";
      EXPECT_EQ(states_of(engine), before);
    });
  }
}

// The last unit has been updated when the gradient of the first one throws.
TEST(SpeculationInABrokenBackward, IsTakenBack) {
  std::vector<std::vector<double>> found;
  for (const bool early : {false, true}) {
    run_ranks(1, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
      EngineOptions options = small_plan(2, 1, DType::bf16).options;
      options.offload.optimizer = Tier::host;
      options.zero.speculative_update = early;
      options.zero.reduce_bucket_numel = 1;  // each unit by itself
      options.precision.gradient_clipping = 0.0;
      LinearModel model;
      Engine engine(model, options, comm);
      engine.backward(model->loss(linear_numbers(0, 0)));
      engine.step();
      const torch::Tensor first = model->first->weights[0];
      const unsigned hook = first.register_hook([&](const torch::Tensor&) {
        wait_for_early(engine);
        throw std::runtime_error("broken");
      });
      EXPECT_ANY_THROW(engine.backward(model->loss(linear_numbers(0, 1))));
      EXPECT_EQ(told_of(engine).taken_back > 0, early) << "before anybody asks";
      first.remove_hook(hook);
      engine.backward(model->loss(linear_numbers(0, 2)));
      engine.step();
      found.push_back(states_of(engine));
    });
  }
  EXPECT_EQ(found[0], found[1]);
}

// Early updates of the test's own beside an engine that has none, on a thread that the test holds
// up.
class OwnSpeculation {
 public:
  OwnSpeculation(RunPlan plan, Core& core) : core_(core) {
    plan.options.zero.speculative_update = true;
    std::vector<FlatUnit*> units;
    for (std::size_t i = 0; i < core.units(); ++i) {
      units.push_back(const_cast<FlatUnit*>(&core.unit(i)));
    }
    updates_ = std::make_unique<SpeculativeUpdates>(
        units, tier_plan(layout_of(core), footprint_options_of(plan.options)),
        stage_row(plan.options.zero.stage), 2,
        SpeculativeUpdates::Parts{core.states(), core.state_memory(), pool_, worker_});
    settings_ = {.parameter_groups = plan.options.parameter_groups, .gradient_factor = 1.0F};
  }
  ~OwnSpeculation() { worker_.synchronize(); }

  void offer(std::size_t unit, std::function<void()> is_there) {
    updates_->begin(settings_);
    updates_->offer(unit, core_.reducer().units()[unit], std::move(is_there));
  }
  SpeculativeUpdates& updates() { return *updates_; }
  const Stream& worker() const { return worker_; }

 private:
  Core& core_;
  ThreadPool pool_ = ThreadPool(1);
  Stream worker_ = Stream::make(kCpu);
  UpdateSettings settings_;
  std::unique_ptr<SpeculativeUpdates> updates_;
};

// The turn of an offer that was taken back may come after the unit was offered again, whose G is
// not there yet.
TEST(SpeculationOfASecondOffer, WaitsForItsOwnGradients) {
  RunPlan run = small_plan(2, 1, DType::bf16);
  run.options.offload.optimizer = Tier::host;
  with_engine(run, {}, [&](Model& model, Engine& engine, Communicator&) {
    engine.backward(loss_of(run, model, engine, 0));
    engine.core().finish_reductions();
    OwnSpeculation own(run, engine.core());
    std::promise<void> may_go_on, is_there;
    own.worker().run([&] { may_go_on.get_future().wait(); });
    own.offer(1, [] {});
    own.updates().take_back();
    own.offer(1, [&] { is_there.get_future().wait(); });
    may_go_on.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(own.updates().undecided(), 0) << "it has read a G that is not there";
    is_there.set_value();
    own.worker().synchronize();
    EXPECT_EQ(own.updates().undecided(), 1);
    own.updates().take_back();
  });
}

// Where parameters lie on the host they may be gathered at any time, so their updates wait.
TEST(SpeculationBesideOffloadedParameters, WaitsForTheNorm) {
  RunPlan run = small_plan(3, 2, DType::bf16);
  run.options.zero.persistence_numel = 0;
  run.options.offload = {.optimizer = Tier::host, .parameters = Tier::host};
  run.options.zero.speculative_update = true;
  const Story story = [](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 4);
  };
  const Outcome early = outcome_of(run, story);
  run.options.zero.speculative_update = false;
  EXPECT_EQ(early.states, outcome_of(run, story).states);
}

INSTANTIATE_TEST_SUITE_P(Stages, Speculation,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2)));
INSTANTIATE_TEST_SUITE_P(Stages, SeenBetween,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2)));

int calm_steps_until_it_begins(SpeculationPolicy& policy) {
  int steps = 0;
  while (!policy.may_begin()) {
    policy.note_step(true);
    ++steps;
  }
  return steps;
}

TEST(SpeculationPolicy, WaitsLongerEachTimeItWasWrong) {
  SpeculationPolicy policy;
  EXPECT_TRUE(policy.may_begin()) << "at first";
  for (const int wanted : {4, 8, 16, 32, 64, 64}) {
    policy.note_step(false);
    EXPECT_EQ(calm_steps_until_it_begins(policy), wanted);
  }
  // Where every step clips, nothing begins.
  for (int i = 0; i < 100; ++i) {
    policy.note_step(false);
    EXPECT_FALSE(policy.may_begin());
    policy.note_step(true);
    policy.note_step(true);
  }
}

// A step that clips while nothing begins early makes the wait longer, too, and never shorter.
TEST(SpeculationPolicy, WaitsLongerWhereACalmWaitIsBroken) {
  SpeculationPolicy policy;
  for (const int wanted : {4, 8, 16}) {
    policy.note_step(false);
    for (int i = 0; i < wanted - 1; ++i) policy.note_step(true);
    EXPECT_FALSE(policy.may_begin());
  }
  policy.note_step(false);
  EXPECT_EQ(calm_steps_until_it_begins(policy), 32);
  for (int i = 0; i < 10; ++i) policy.note_step(false);
  EXPECT_EQ(calm_steps_until_it_begins(policy), 64);
}

}  // namespace
}  // namespace zeroshard::test
