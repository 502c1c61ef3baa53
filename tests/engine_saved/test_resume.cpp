// A run that was saved and resumed is one that never stopped, to the bit, wherever states lie.

#include <gtest/gtest.h>

#include "tests/engine/random_plan.h"
#include "tests/engine_saved/saved_run.h"
#include "zeroshard/checkpoint/compare.h"
#include "zeroshard/checkpoint/verify.h"

namespace zeroshard::test {
namespace {

RunPlan offloaded(RunPlan plan, bool parameters) {
  plan.options.offload.optimizer = Tier::host;
  if (parameters) plan.options.offload.parameters = Tier::host;
  return plan;
}

class Resume : public testing::TestWithParam<std::tuple<int, int, DType>> {};

TEST_P(Resume, EqualsARunThatNeverStopped) {
  const auto [stage, ranks, dtype] = GetParam();
  const TemporaryFolder folder;
  RunPlan plan = small_plan(stage, ranks, dtype, 2);
  plan.steps = 6;
  plan.options.precision.gradient_clipping = 0.05;
  EXPECT_EQ(difference(train(plan), train_in_two(plan, plan, folder.path())), "");
}

TEST_P(Resume, OnAnotherTierAndAtAnotherStage) {
  const auto [stage, ranks, dtype] = GetParam();
  const TemporaryFolder folder;
  RunPlan plan = small_plan(stage, ranks, dtype);
  plan.steps = 6;
  const Trace expected = train(plan);
  RunPlan other = small_plan((stage + 2) % 4, ranks, dtype);
  other.steps = 6;
  other.options.zero.persistence_numel = 300;
  for (const bool first_offloaded : {false, true}) {
    const RunPlan first = first_offloaded ? offloaded(plan, stage == 3) : plan;
    const RunPlan second = first_offloaded ? other : offloaded(other, false);
    EXPECT_EQ(difference(expected, train_in_two(first, second, folder.path())), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Resume,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2, 3),
                                          testing::Values(DType::fp32, DType::bf16, DType::fp16)));

TEST(ResumeAtRandom, EqualsARunThatNeverStopped) {
  std::mt19937_64 random(23);
  for (int i = 0; i < 25; ++i) {
    const TemporaryFolder folder;
    RunPlan plan = random_numbers(random);
    plan.options.zero.stage = static_cast<int>(random() % 4);
    const RunPlan first = with_random_placement(plan, random);
    RunPlan second = with_random_placement(plan, random);
    if (i % 3 == 0) second = offloaded(second, second.options.zero.stage == 3);
    EXPECT_EQ(difference(train(first), train_in_two(first, second, folder.path())), "")
        << describe(first);
  }
}

// Loaded by M ranks and saved again, it is what N ranks have saved.
TEST(Resize, KeepsEveryBit) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 16; ++i) {
    const TemporaryFolder folder;
    const DType dtype = std::array{DType::fp32, DType::bf16, DType::fp16}[random() % 3];
    RunPlan first =
        small_plan(static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 4), dtype);
    first.steps = 3;
    first.options.zero.halved_masters = random() % 2 == 0;
    first.after = [&](Engine& engine, Communicator& comm) {
      save_engine(engine, comm, folder / "one");
    };
    if (random() % 3 == 0) first = offloaded(first, false);
    train(first);
    RunPlan second =
        small_plan(static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 4), dtype);
    second.steps = 0;
    second.options.zero.halved_masters = random() % 2 == 0;
    if (random() % 3 == 0) second = offloaded(second, second.options.zero.stage == 3);
    second.before = [&](Engine& engine, Communicator& comm) {
      const LoadReport report = load_engine(engine, folder / "one");
      EXPECT_TRUE(report.missing.empty());
      EXPECT_TRUE(report.unexpected.empty());
      save_engine(engine, comm, folder / "two");
    };
    train(second);
    const StateFiles one = StateFiles::open(folder / "one"), two = StateFiles::open(folder / "two");
    const Comparison comparison = compare(one, two);
    EXPECT_TRUE(comparison.same_states()) << describe(first) << " to " << describe(second);
    EXPECT_GT(comparison.equal_states, 30U);
    EXPECT_EQ(two.manifest().ranks, second.ranks);
    for (const StoredTensor& tensor : two.manifest().tensors) {
      EXPECT_EQ(tensor.updates, 3);
      EXPECT_EQ(tensor.dtype, StoredDType(dtype));
    }
    EXPECT_TRUE(verify(two).damaged.empty());
  }
}

}  // namespace
}  // namespace zeroshard::test
