// States that leave the device between steps come back as they were, and leave nothing behind.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "tests/support/temporary_folder.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

using Story = std::function<void(const RunPlan&, Model&, Engine&)>;
using StatesOfRanks = std::vector<std::vector<double>>;

StatesOfRanks states_after(const RunPlan& plan, const Story& story) {
  StatesOfRanks all(static_cast<std::size_t>(plan.ranks));
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
    story(plan, model, engine);
    all[static_cast<std::size_t>(comm.rank())] = states_of(engine);
  });
  return all;
}

void train_steps(const RunPlan& plan, Model& model, Engine& engine, int from, int to) {
  for (int step = from; step < to; ++step) train_step(plan, model, engine, step);
}

std::map<Category, std::int64_t> held_on(const Engine& engine, Tier tier) {
  std::map<Category, std::int64_t> held;
  for (const Category category : kCategories) {
    held[category] = const_cast<Engine&>(engine).core().memory().bytes(category, tier);
  }
  return held;
}

template <typename Call>
std::string said_by(const Call& call) {
  try {
    call();
  } catch (const StateError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::vector<std::set<Category>> subsets() {
  std::vector<std::set<Category>> all{{kCategories.begin(), kCategories.end()},
                                      {Category::master, Category::moments}};
  for (const Category category : kCategories) all.push_back({category});
  return all;
}

// What was on the device is on the host to the byte; buffers are nowhere.
void expect_moved(const Engine& engine, const std::map<Category, std::int64_t>& device,
                  const std::map<Category, std::int64_t>& host, const std::set<Category>& moved) {
  const auto device_now = held_on(engine, Tier::device), host_now = held_on(engine, Tier::host);
  for (const Category category : kCategories) {
    if (category == Category::buffers) continue;
    SCOPED_TRACE(name_of(category));
    const bool left = moved.contains(category);
    EXPECT_EQ(device_now.at(category), left ? 0 : device.at(category));
    EXPECT_EQ(host_now.at(category), host.at(category) + (left ? device.at(category) : 0));
  }
  EXPECT_EQ(host_now.at(Category::buffers), host.at(Category::buffers));
  EXPECT_LE(device_now.at(Category::buffers), device.at(Category::buffers));
}

class OffloadStates : public testing::TestWithParam<std::tuple<int, int, DType>> {
 protected:
  RunPlan plan(std::int64_t micro_steps = 1) const {
    const auto [stage, ranks, dtype] = GetParam();
    RunPlan plan = small_plan(stage, ranks, dtype, micro_steps);
    plan.options.zero.persistence_numel = 0;
    return plan;
  }
  static Story undisturbed() {
    return [](const RunPlan& plan, Model& model, Engine& engine) {
      train_steps(plan, model, engine, 0, 5);
    };
  }
};

TEST_P(OffloadStates, ComeBackAsTheyWere) {
  const StatesOfRanks expected = states_after(plan(), undisturbed());
  EXPECT_EQ(
      states_after(plan(),
                   [](const RunPlan& plan, Model& model, Engine& engine) {
                     train_steps(plan, model, engine, 0, 2);
                     Core& core = engine.core();
                     bool blocks = true;
                     for (const std::set<Category>& moved : subsets()) {
                       engine.finish();
                       const auto device = held_on(engine, Tier::device);
                       const auto host = held_on(engine, Tier::host);
                       core.offload_states({.states = moved, .pin = blocks, .blocks = blocks});
                       core.offload_states({.states = moved});  // which waits
                       EXPECT_EQ(core.offloaded(), moved);
                       expect_moved(engine, device, host, moved);
                       core.reload_states(blocks);
                       engine.finish();
                       EXPECT_TRUE(core.offloaded().empty());
                       EXPECT_EQ(held_on(engine, Tier::host), host);
                       blocks = !blocks;
                     }
                     train_steps(plan, model, engine, 2, 5);
                   }),
      expected);
}

// Local gradients and G of the micro-steps so far go and come back, too.
TEST_P(OffloadStates, ComeBackInMidAccumulation) {
  const StatesOfRanks expected = states_after(plan(3), undisturbed());
  EXPECT_EQ(states_after(plan(3),
                         [](const RunPlan& plan, Model& model, Engine& engine) {
                           for (int micro = 0; micro < 15; ++micro) {
                             RunPlan one = plan;
                             one.options.accumulation_steps = 1;
                             train_step(one, model, engine, micro);
                             if (micro % 4 != 1) continue;
                             engine.core().offload_states({});
                             engine.core().reload_states();
                           }
                         }),
            expected);
}

TEST_P(OffloadStates, WhatNeedsThemSaysSo) {
  const RunPlan run = plan();
  with_engine(run, {}, [&](Model& model, Engine& engine, Communicator&) {
    train_step(run, model, engine, 0);
    engine.core().offload_states({.states = {Category::moments, Category::master}});
    const auto batch = batch_of(run.rows, 9, run.shape.vocabulary, 0);
    engine.backward(model->loss(batch.narrow(0, 0, run.rows / run.ranks)));  // needs neither
    EXPECT_EQ(said_by([&] { engine.step(); }),
              "[state] step() needs states that offload_states() has put on the host: master, "
              "moments; call reload_states() first");
    EXPECT_THROW(engine.core().states(), StateError);
    engine.core().reload_states();
    engine.step();
    engine.core().offload_states({.states = {Category::parameters}});
    EXPECT_THROW(model->loss(batch), Error);
    EXPECT_THROW(engine.full_params(), StateError);
    engine.core().reload_states();
    {
      const auto scope = engine.full_params();
      EXPECT_THROW(engine.core().offload_states({}), StateError);
    }
    train_step(run, model, engine, 1);
  });
}

TEST_P(OffloadStates, AModelOutlivesAnEngineThatHasNotReloaded) {
  const auto [stage, ranks, dtype] = GetParam();
  if (stage == 3 && ranks > 1) return;  // the engine has only shards of it
  RunPlan run = plan();
  run_ranks(ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    Model model(run.shape);
    set_parameters(*model, 1);
    auto engine = std::make_unique<Engine>(model, run.options, comm);
    std::vector<at::Tensor> values;
    for (const at::Tensor& parameter : model->parameters()) values.push_back(parameter.clone());
    engine->core().offload_states({});
    EXPECT_EQ(model->parameters()[0].numel(), 0) << "nobody reads it by mistake";
    engine.reset();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(model->parameters()[i].equal(values[i])) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, OffloadStates,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2),
                                          testing::Values(DType::fp32, DType::bf16)));

// What a configuration keeps on the host stays there.
TEST(OffloadStatesBesideOffload, TheHostsOwnStay) {
  for (const int stage : {1, 3}) {
    RunPlan run = small_plan(stage, 2, DType::bf16);
    run.options.zero.persistence_numel = 0;
    const Story story = [](const RunPlan& plan, Model& model, Engine& engine) {
      train_steps(plan, model, engine, 0, 2);
      engine.finish();
      const auto before = held_on(engine, Tier::host);
      engine.core().offload_states({});
      engine.core().reload_states();
      EXPECT_EQ(held_on(engine, Tier::host), before);
      train_steps(plan, model, engine, 2, 5);
    };
    RunPlan away = run;
    away.options.offload = {.optimizer = Tier::host, .optimizer_ratio = 0.6};
    if (stage == 3) away.options.offload.parameters = Tier::host;
    EXPECT_EQ(states_after(away, story),
              states_after(run, [](const RunPlan& plan, Model& model, Engine& engine) {
                train_steps(plan, model, engine, 0, 5);
              }));
  }
}

// Whose units' states are in a memory of the test's, of a host that has next to nothing left.
std::shared_ptr<StateMemory> give_memory(Model& model, const RunPlan& run, Communicator& comm,
                                         const std::filesystem::path& root) {
  auto memory = std::make_shared<StateMemory>(kCpu, HostMemoryOptions{.limits = root});
  std::vector<UnitSize> so_far;
  for (const FoundUnit& found : find_units(*model)) {
    const FlatUnitOptions options = Core::unit_options(run.options, found.spec, comm, so_far);
    if (found.unit == nullptr) continue;
    found.unit->keep(std::make_unique<FlatUnit>(found.spec, options, memory));
  }
  return memory;
}

// A move that is refused has changed nothing: training goes on as if nobody had asked for it.
TEST(OffloadStatesOfAFullHost, AreRefusedAndStay) {
  for (const int stage : {0, 2, 3}) {
    SCOPED_TRACE(stage);
    const TemporaryFolder root;
    std::filesystem::create_directories(root.path() / "proc");
    std::ofstream(root.path() / "proc/meminfo") << "MemTotal: 4096 kB\nMemAvailable: 1 kB\n";
    const RunPlan run = small_plan(stage, 2, DType::bf16);
    const StatesOfRanks expected =
        states_after(run, [](const RunPlan& plan, Model& model, Engine& engine) {
          train_steps(plan, model, engine, 0, 4);
        });
    StatesOfRanks found(2);
    run_ranks(2, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
      Model model(run.shape);
      set_parameters(*model, 1);
      const auto memory = give_memory(model, run, comm, root.path());
      Engine engine(model, run.options, comm);
      train_steps(run, model, engine, 0, 2);
      engine.finish();
      const std::int64_t held = memory->ledger().total(Tier::device);
      EXPECT_THROW(engine.core().offload_states({}), StorageError);
      EXPECT_TRUE(engine.core().offloaded().empty());
      train_steps(run, model, engine, 2, 4);
      found[static_cast<std::size_t>(comm.rank())] = states_of(engine);
      EXPECT_EQ(memory->ledger().total(Tier::device), held);
    });
    EXPECT_EQ(found, expected);
  }
}

TEST(OffloadStatesOfACaller, HisMastersFollow) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const auto run_with = [&](bool moves) {
      RunPlan run = small_plan(2, 2, dtype);
      // The callback needs the engine, which does not exist yet.
      std::vector<std::shared_ptr<std::vector<at::Tensor>>> masters(2);
      StatesOfRanks found(2);
      run_ranks(2, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
        auto& mine = masters[static_cast<std::size_t>(comm.rank())];
        mine = std::make_shared<std::vector<at::Tensor>>();
        EngineOptions options = run.options;
        options.update = [mine](const std::vector<at::Tensor>& gradients) {
          for (std::size_t i = 0; i < gradients.size(); ++i) {
            if (gradients[i].defined()) (*mine)[i].sub_(gradients[i], 0.1);
          }
        };
        Model model(run.shape);
        set_parameters(*model, 1);
        Engine engine(model, options, comm);
        for (const MasterSegment& segment : engine.core().master_segments()) {
          mine->push_back(segment.master);
        }
        train_steps(run, model, engine, 0, 2);
        if (moves) {
          engine.core().offload_states({});
          EXPECT_EQ(mine->front().data_ptr(), nullptr);
          engine.core().reload_states();
        }
        train_steps(run, model, engine, 2, 4);
        found[static_cast<std::size_t>(comm.rank())] = states_of(engine);
      });
      return found;
    };
    EXPECT_EQ(run_with(true), run_with(false));
  }
}

}  // namespace
}  // namespace zeroshard::test
