// What is loaded of a checkpoint, and what is said where it and the model differ.

#include <atomic>
#include <bit>

#include <gtest/gtest.h>

#include "tests/engine_saved/saved_run.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/half.h"
#include "zeroshard/checkpoint/compare.h"
#include "zeroshard/checkpoint/export_model.h"

namespace zeroshard::test {
namespace {

namespace fs = std::filesystem;

// Three steps of a small model, saved.
void save_small(const fs::path& folder, RunPlan plan) {
  plan.steps = 3;
  plan.after = [&](Engine& engine, Communicator& comm) { save_engine(engine, comm, folder); };
  train(plan);
}

// Loads without training and does something with the engine.
template <typename Act>
void with_engine(RunPlan plan, const Act& act) {
  plan.steps = 0;
  plan.before = act;
  train(plan);
}

std::string refusal_of(Engine& engine, const fs::path& folder, const LoadOptions& options = {}) {
  try {
    load_engine(engine, folder, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was refused";
}

// Everything of a trained engine, as one would compare two by hand.
std::vector<float> all_of(Engine& engine, const std::string& state) {
  engine.finish();
  const CoreStates states(engine.core());
  std::vector<float> all;
  for (const HeldState& held : states.held()) {
    if (held.state != state) continue;
    std::vector<float> part(static_cast<std::size_t>(held.elements.size()));
    if (held.dtype == DType::fp32) states.read(held, held.elements, part.data());
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(Load, WeightsOnlyLeavesTheOptimizerAsItWas) {
  const TemporaryFolder folder;
  save_small(folder.path(), small_plan(2, 2, DType::bf16));
  const StateFiles files = StateFiles::open(folder.path());
  with_engine(small_plan(3, 3, DType::bf16), [&](Engine& engine, Communicator& comm) {
    const LoadReport report = load_engine(engine, folder.path(), {.optimizer_states = false});
    EXPECT_TRUE(report.missing.empty());
    EXPECT_TRUE(report.unexpected.empty());
    for (const char* moment : {"exp_avg", "exp_avg_sq"}) {
      for (const float value : all_of(engine, moment)) ASSERT_EQ(value, 0.0F);
    }
    const CoreStates states(engine.core());
    for (const TensorRecord& tensor : states.tensors()) EXPECT_EQ(tensor.updates, 0);
    save_engine(engine, comm, folder / "again");
  });
  const Comparison comparison = compare(files, StateFiles::open(folder / "again"));
  for (const StateDifference& difference : comparison.differences) {
    EXPECT_NE(difference.state, "value") << difference.tensor;
  }
  EXPECT_EQ(comparison.differences.size(), 2 * comparison.equal_states);
}

// The masters are then what the 16-bit parameters are.
TEST(Load, FromTheSixteenBitCopy) {
  const TemporaryFolder folder;
  save_small(folder.path(), small_plan(1, 2, DType::bf16));
  with_engine(small_plan(1, 1, DType::bf16), [&](Engine& engine, Communicator&) {
    load_engine(engine, folder.path());
    const std::vector<float> exact = all_of(engine, "value");
    load_engine(engine, folder.path(), {.fp32_masters = false});
    const std::vector<float> rounded = all_of(engine, "value");
    std::size_t moved = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const float wanted = bf16_to_fp32(fp32_to_bf16(exact[i]));
      ASSERT_EQ(rounded[i], wanted);
      moved += rounded[i] != exact[i] ? 1 : 0;
    }
    EXPECT_GT(moved, exact.size() / 2);
  });
}

TEST(Load, AnotherModelIsRefusedOnAllRanksWithTheTensor) {
  const TemporaryFolder folder;
  save_small(folder.path(), small_plan(0, 2));
  RunPlan wider = small_plan(3, 3);
  wider.shape.width = 16;
  with_engine(wider, [&](Engine& engine, Communicator&) {
    const std::string said = refusal_of(engine, folder.path());
    EXPECT_NE(said.find("of another model"), std::string::npos) << said;
    EXPECT_NE(said.find("24] there and"), std::string::npos) << said;
  });
  RunPlan deeper = small_plan(3, 3);
  deeper.shape.blocks = 4;
  with_engine(deeper, [&](Engine& engine, Communicator&) {
    const std::string said = refusal_of(engine, folder.path());
    EXPECT_NE(said.find("it lacks block3.norm.weight"), std::string::npos) << said;
    EXPECT_NE(said.find("and 3 more"), std::string::npos) << said;
    const LoadReport report = load_engine(engine, folder.path(), {.strict = false});
    EXPECT_EQ(report.missing.size(), 6U);
    EXPECT_TRUE(report.unexpected.empty());
  });
  RunPlan shallower = small_plan(0, 1);
  shallower.shape.blocks = 2;
  with_engine(shallower, [&](Engine& engine, Communicator&) {
    EXPECT_NE(refusal_of(engine, folder.path()).find("the model has no block2"), std::string::npos);
    EXPECT_EQ(load_engine(engine, folder.path(), {.strict = false}).unexpected.size(), 6U);
  });
}

TEST(Load, AnotherOptimizersStatesAreNamed) {
  const TemporaryFolder folder;
  save_small(folder.path(), small_plan(2, 2));
  RunPlan lion = small_plan(2, 2);
  lion.options.parameter_groups = {LionOptions{.lr = 1e-3}};
  with_engine(lion, [&](Engine& engine, Communicator&) {
    EXPECT_NE(refusal_of(engine, folder.path()).find("the model has no exp_avg_sq of "),
              std::string::npos);
    load_engine(engine, folder.path(), {.optimizer_states = false});
  });
  RunPlan sgd = small_plan(2, 2);
  sgd.options.parameter_groups = {SgdOptions{.lr = 1e-3, .momentum = 0.9}};
  with_engine(sgd, [&](Engine& engine, Communicator&) {
    EXPECT_NE(refusal_of(engine, folder.path()).find("it lacks momentum_buffer of "),
              std::string::npos);
  });
}

RunPlan with_frozen_blocks(RunPlan plan) {
  plan.prepare = [](Model& model) {
    for (auto& block : model->blocks) {
      for (torch::Tensor& parameter : block->up->parameters()) parameter.requires_grad_(false);
    }
  };
  return plan;
}

bool is_adapter(const std::string& name) { return name.find(".up.") == std::string::npos; }

TEST(Load, FrozenParametersAreSavedInTheirOwnDtypeAndLoaded) {
  for (const int stage : {0, 2, 3}) {
    const TemporaryFolder folder;
    RunPlan plan = with_frozen_blocks(small_plan(stage, 3, DType::bf16));
    plan.steps = 6;
    EXPECT_EQ(difference(train(plan), train_in_two(plan, plan, folder.path())), "");
    const StateFiles files = StateFiles::open(folder.path());
    const StoredTensor* const frozen = files.find("block0.up.weight");
    ASSERT_NE(frozen, nullptr);
    EXPECT_EQ(frozen->kind, TensorKind::frozen);
    EXPECT_EQ(frozen->states.size(), 1U);
    EXPECT_EQ(frozen->states.at("value").dtype, StoredDType(DType::bf16));
    EXPECT_EQ(files.find("block0.down.weight")->states.size(), 3U);
  }
}

// As with adapters: of the rest nothing is wanted, and nothing is missed.
TEST(Load, AFilterTakesSomeTensorsAndIsStrictAboutThese) {
  const TemporaryFolder folder;
  save_small(folder.path(), with_frozen_blocks(small_plan(3, 2, DType::bf16)));
  with_engine(small_plan(2, 3, DType::bf16), [&](Engine& engine, Communicator& comm) {
    const LoadReport report = load_engine(engine, folder.path(), {.wants = is_adapter});
    EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
    save_engine(engine, comm, folder / "again");
    EXPECT_NE(refusal_of(engine, folder.path()).find("it lacks exp_avg of block0.up."),
              std::string::npos);
  });
  const Comparison comparison =
      compare(StateFiles::open(folder.path()), StateFiles::open(folder / "again"));
  for (const StateDifference& difference : comparison.differences) {
    EXPECT_FALSE(is_adapter(difference.tensor)) << difference.tensor;
  }
  EXPECT_GT(comparison.equal_states, 20U);
}

// Of any precision from any other: the masters are the same fp32, but for ties that bf16 settles.
TEST(Load, AnyPrecisionFromAnyOther) {
  for (const DType from : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const DType to : {DType::fp32, DType::bf16, DType::fp16}) {
      const TemporaryFolder folder;
      save_small(folder.path(), small_plan(3, 2, from));
      with_engine(small_plan(1, 3, to), [&](Engine& engine, Communicator& comm) {
        load_engine(engine, folder.path());
        save_engine(engine, comm, folder / "again");
      });
      const Comparison comparison =
          compare(StateFiles::open(folder.path()), StateFiles::open(folder / "again"));
      for (const StateDifference& difference : comparison.differences) {
        EXPECT_EQ(to, DType::bf16);
        EXPECT_LT(difference.largest, 1e-6) << difference.state << " of " << difference.tensor;
      }
    }
  }
}

// All masters become 1, and the first of each parameter an exact tie. Returns those of this rank.
std::int64_t write_ties(Engine& engine, float tie) {
  CoreStates states(engine.core());
  std::int64_t ties = 0;
  for (const HeldState& held : states.owned()) {
    if (held.state != "value") continue;
    std::vector<float> values(static_cast<std::size_t>(held.elements.size()), 1.0F);
    if (held.elements.begin() == 0) {
      values[0] = tie;
      ++ties;
    }
    states.write(held, held.elements, values.data(), DType::fp32);
  }
  engine.core().adopt_masters();
  return ties;
}

TEST(Load, ExactTiesOfBf16AreSettledAndCounted) {
  const float tie = std::bit_cast<float>(0x3F808000U), moved = std::bit_cast<float>(0x3F807FFFU);
  const TemporaryFolder folder;
  std::atomic<std::int64_t> written = 0, said = 0, found = 0;
  with_engine(small_plan(2, 2, DType::fp32), [&](Engine& engine, Communicator& comm) {
    written += write_ties(engine, tie);
    save_engine(engine, comm, folder.path());
  });
  with_engine(small_plan(3, 3, DType::bf16), [&](Engine& engine, Communicator&) {
    said += load_engine(engine, folder.path()).settled_ties;
    for (const float master : all_of(engine, "value")) {
      EXPECT_TRUE(master == 1.0F || master == moved) << master;
      found += master == moved ? 1 : 0;
    }
  });
  EXPECT_GT(written, 10);
  EXPECT_EQ(said, written);
  EXPECT_EQ(found, written);
}

TEST(Load, AHuggingFaceModelIsWeightsOnly) {
  const TemporaryFolder folder;
  save_small(folder / "runs", small_plan(3, 2, DType::fp32));
  export_model(StateFiles::open(folder / "runs"), folder / "model");
  with_engine(small_plan(3, 3, DType::fp32), [&](Engine& engine, Communicator& comm) {
    load_engine(engine, folder / "model", {.optimizer_states = false});
    save_engine(engine, comm, folder / "again");
  });
  const Comparison comparison =
      compare(StateFiles::open(folder / "model"), StateFiles::open(folder / "again"));
  EXPECT_TRUE(comparison.differences.empty());
  EXPECT_TRUE(comparison.only_in_first.empty());
  EXPECT_GT(comparison.equal_states, 10U);
}

TEST(Load, OfADamagedFileIsRefusedByTheRankThatReadsIt) {
  const TemporaryFolder folder;
  save_small(folder.path(), small_plan(3, 2));
  fs::remove(folder / "saved/rank_00001.safetensors");
  with_engine(small_plan(3, 2), [&](Engine& engine, Communicator&) {
    EXPECT_THROW(load_engine(engine, folder.path()), StorageError);
  });
}

}  // namespace
}  // namespace zeroshard::test
