// A master in two halves has the bits of a whole one, whatever is done to it.
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"

namespace zeroshard::test {
namespace {

RunPlan plan_of(int stage, int ranks, bool halved) {
  RunPlan plan = small_plan(stage, ranks, DType::bf16, 2);
  plan.options.zero.halved_masters = halved;
  plan.options.zero.persistence_numel = 0;
  return plan;
}

using Story = std::function<void(const RunPlan&, Model&, Engine&)>;
using StatesOfRanks = std::vector<std::vector<double>>;

StatesOfRanks states_after(const RunPlan& plan, const Story& story) {
  StatesOfRanks all(static_cast<std::size_t>(plan.ranks));
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
    const bool halves = engine.core().states().halves_some();
    EXPECT_EQ(halves, plan.options.zero.halved_masters);
    story(plan, model, engine);
    all[static_cast<std::size_t>(comm.rank())] = states_of(engine);
  });
  return all;
}

void train_steps(const RunPlan& plan, Model& model, Engine& engine, int from, int to) {
  for (int step = from; step < to; ++step) train_step(plan, model, engine, step);
}

// Every third element of each parameter becomes another number of the model's dtype.
void write_some(Engine& engine, double value) {
  const at::NoGradGuard no_grad;
  for (std::size_t unit = 0; unit < engine.core().units(); ++unit) {
    for (const NamedParameter& parameter : engine.core().unit(unit).parameters()) {
      at::Tensor flat = parameter.tensor.data().view({-1});
      flat.slice(0, 0, flat.numel(), 3).fill_(value);
    }
  }
}

class HalvedMasters : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  // `changes` says what of the story changes a state, so that none of it may be lost on both sides.
  void expect_same(const Story& story, const Story* without = nullptr) {
    const auto [stage, ranks] = GetParam();
    const StatesOfRanks whole = states_after(plan_of(stage, ranks, false), story);
    EXPECT_EQ(states_after(plan_of(stage, ranks, true), story), whole);
    RunPlan away = plan_of(stage, ranks, true);
    away.options.offload = {.optimizer = Tier::host, .parameters = Tier::host};
    if (stage == 3) {
      EXPECT_EQ(states_after(away, story), whole) << "both on the host";
    }
    if (without != nullptr) {
      EXPECT_NE(states_after(plan_of(stage, ranks, true), *without), whole);
    }
  }
};

TEST_P(HalvedMasters, TrainAlike) {
  expect_same([](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 8);
  });
}

TEST_P(HalvedMasters, KeepTheDigitsOfWhatNobodyWrites) {
  const Story unwritten = [](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 6);
  };
  expect_same(
      [](const RunPlan& plan, Model& model, Engine& engine) {
        train_steps(plan, model, engine, 0, 3);
        {
          const auto scope = engine.full_params({.writes = true, .from = 0});
          write_some(engine, 0.125);
          const auto inner = engine.full_params();  // that only reads
        }
        {
          const auto scope = engine.full_params({.writes = true, .from = 0});
          const auto inner = engine.full_params({.writes = true, .from = 0});
          write_some(engine, -0.0);
        }
        train_steps(plan, model, engine, 3, 6);
      },
      &unwritten);
}

TEST_P(HalvedMasters, ForgetWhatAnExceptionCutShort) {
  const Story story = [](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 3);
    try {
      const auto scope = engine.full_params({.writes = true, .from = 0});
      write_some(engine, 4.0);
      throw std::runtime_error("cut short");
    } catch (const std::runtime_error&) {
    }
    engine.core().adopt_masters();  // whole masters bring the old values back
  };
  const Story undisturbed = [](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 3);
  };
  expect_same(story);
  const auto [stage, ranks] = GetParam();
  EXPECT_EQ(states_after(plan_of(stage, ranks, true), story),
            states_after(plan_of(stage, ranks, true), undisturbed));
}

// A scope may stay open while training goes on; the last one to close takes what it finds.
TEST_P(HalvedMasters, StepsInsideAScopeAreNotWrites) {
  const auto [stage, ranks] = GetParam();
  if (stage == 3 && ranks > 1) return;  // a released unit's scope is closed before a step
  expect_same([](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 2);
    {
      const auto scope = engine.full_params({.writes = true, .from = 0});
      train_steps(plan, model, engine, 2, 4);
    }
    train_steps(plan, model, engine, 4, 6);
  });
}

// What is written after such a step was written by somebody: masters take it, as whole ones do.
TEST_P(HalvedMasters, WritesAfterAStepInsideAScopeCount) {
  const auto [stage, ranks] = GetParam();
  if (stage == 3 && ranks > 1) return;
  expect_same([](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 2);
    {
      const auto scope = engine.full_params({.writes = true, .from = 0});
      train_steps(plan, model, engine, 2, 4);
      engine.finish();
      write_some(engine, 0.125);
    }
    train_steps(plan, model, engine, 4, 6);
  });
}

TEST_P(HalvedMasters, TakeWrittenMastersAndFills) {
  const Story unwritten = [](const RunPlan& plan, Model& model, Engine& engine) {
    train_steps(plan, model, engine, 0, 4);
  };
  expect_same(
      [](const RunPlan& plan, Model& model, Engine& engine) {
        train_steps(plan, model, engine, 0, 2);
        OptimizerStates& states = engine.core().states();
        for (std::size_t unit = 0; unit < engine.core().units(); ++unit) {
          const at::Tensor masters = states.masters(unit, 0).clone();
          masters.mul_(1.0 + 0x1p-12);
          states.write_masters(unit, 0, 0, masters);
        }
        engine.core().adopt_masters();
        train_steps(plan, model, engine, 2, 4);
        engine.fill_parameters([](const std::string&, const Span& elements, float* values) {
          for (std::int64_t i = 0; i < elements.size(); ++i) {
            values[i] = 0.001F * static_cast<float>((elements.begin() + i) % 100);
          }
        });
        train_steps(plan, model, engine, 4, 6);
      },
      &unwritten);
}

INSTANTIATE_TEST_SUITE_P(Stages, HalvedMasters,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2, 3)));

// Of a tie that does not fit into halves the last bit goes, and it is counted, in both forms.
TEST(WrittenMasters, SettleTies) {
  const float tie = std::bit_cast<float>(0x3F808000U);  // the upper half is even: it went down
  const float other = std::bit_cast<float>(0x3F818000U);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool halved : {false, true}) {
    with_engine(plan_of(1, 1, halved), {}, [&](Model&, Engine& engine, Communicator&) {
      OptimizerStates& states = engine.core().states();
      const at::Tensor masters = states.masters(1, 0).clone();
      const auto put = [&](std::int64_t at, float value) { masters[at].fill_(value); };
      put(1, tie), put(2, other), put(3, nan), put(4, -tie);
      EXPECT_EQ(states.write_masters(1, 0, 0, masters), 2);
      const at::Tensor now = states.masters(1, 0).contiguous();
      const float* const values = now.const_data_ptr<float>();
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[1]), 0x3F807FFFU);
      EXPECT_EQ(values[2], other);
      EXPECT_TRUE(std::isnan(values[3]));
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[4]), 0xBF807FFFU);
      EXPECT_EQ(states.write_masters(1, 0, 2, now.narrow(0, 2, 3)), 0) << "settled already";
    });
  }
}

// An optimizer of the caller's works on whole masters, and the plan knows it.
TEST(WholeMasters, BelongToCallersOptimizers) {
  RunPlan plan = plan_of(1, 2, true);
  plan.options.update = [](const std::vector<at::Tensor>&) {};
  with_engine(plan, {}, [&](Model&, Engine& engine, Communicator&) {
    EXPECT_FALSE(engine.core().states().halves_some());
    EXPECT_EQ(engine.core().memory().bytes(Category::moments, Tier::device), 0);
  });
}

}  // namespace
}  // namespace zeroshard::test
