// Which uses count for a backward. Nodes are only compared, so any addresses will do.
#include <array>

#include <gtest/gtest.h>

#include "zeroshard/engine/unit_uses.h"

namespace zeroshard {
namespace {

class UnitUsesTest : public testing::Test {
 protected:
  UnitUses::Node* node(std::size_t i) { return reinterpret_cast<UnitUses::Node*>(&memory_.at(i)); }
  UnitUses::Nodes nodes(std::initializer_list<std::size_t> which) {
    UnitUses::Nodes all;
    for (const std::size_t i : which) all.insert(node(i));
    return all;
  }
  UnitUses::Id use(std::size_t unit, std::size_t of_node) {
    const UnitUses::Id id = uses.begin(unit);
    uses.add_node(id, node(of_node));
    return id;
  }

  UnitUses uses{2};

 private:
  std::array<char, 8> memory_{};
};

TEST_F(UnitUsesTest, CountThoseOfTheTask) {
  const UnitUses::Id first = use(0, 1);
  use(0, 2);
  const UnitUses::Nodes task = nodes({1, 3});
  uses.enter_task(&task);
  EXPECT_EQ(uses.in_task(0), 1);
  EXPECT_EQ(uses.awaited(0), 1);
  EXPECT_EQ(uses.in_task(1), 0);
  uses.end(first);
  EXPECT_EQ(uses.awaited(0), 0);
  EXPECT_EQ(uses.in_task(0), 1);
}

TEST_F(UnitUsesTest, AUnitUsedTwiceIsAwaitedTwice) {
  const UnitUses::Id first = use(0, 1), second = use(0, 2);
  const UnitUses::Nodes task = nodes({1, 2});
  uses.enter_task(&task);
  uses.end(second);
  EXPECT_EQ(uses.awaited(0), 1);
  uses.end(first);
  EXPECT_EQ(uses.awaited(0), 0);
}

TEST_F(UnitUsesTest, AGraphThatIsDifferentiatedAgainIsAwaitedAgain) {
  const UnitUses::Id id = use(0, 1);
  const UnitUses::Nodes task = nodes({1});
  for (int time = 0; time < 2; ++time) {
    uses.enter_task(&task);
    EXPECT_EQ(uses.awaited(0), 1);
    uses.end(id);
    EXPECT_EQ(uses.awaited(0), 0);
    uses.leave_task();
  }
}

TEST_F(UnitUsesTest, WithoutAGraphAUseCountsForEveryBackward) {
  uses.begin(0);
  const UnitUses::Nodes task = nodes({5});
  uses.enter_task(&task);
  EXPECT_EQ(uses.awaited(0), 1);
}

// The address of a node that is gone may be another node's by then.
TEST_F(UnitUsesTest, WhoseNodesAreGoneCountsForNoBackward) {
  const UnitUses::Id id = use(0, 1);
  uses.remove_node(id, node(1));
  const UnitUses::Nodes task = nodes({1});
  uses.enter_task(&task);
  EXPECT_EQ(uses.in_task(0), 0);
}

TEST_F(UnitUsesTest, WhatBeginsInsideABackwardBelongsToIt) {
  const UnitUses::Nodes task = nodes({5});
  uses.enter_task(&task);
  use(1, 7);
  EXPECT_EQ(uses.awaited(1), 1);
}

TEST_F(UnitUsesTest, AForgottenUseIsNotAwaited) {
  const UnitUses::Id id = use(0, 1);
  const UnitUses::Nodes task = nodes({1});
  uses.enter_task(&task);
  uses.forget(id);
  EXPECT_EQ(uses.awaited(0), 0);
  uses.end(id);  // a hook that comes late finds nothing, and breaks nothing
}

TEST_F(UnitUsesTest, EndsByGradientsWhereNoUseTellsItsEnd) {
  const UnitUses::Id told = use(0, 1), untold = use(0, 2);
  uses.end_by_gradients(untold);
  const UnitUses::Nodes both = nodes({1, 2}), one = nodes({2});
  uses.enter_task(&both);
  EXPECT_FALSE(uses.ends_by_gradients(0));
  uses.enter_task(&one);
  EXPECT_TRUE(uses.ends_by_gradients(0));
  EXPECT_FALSE(uses.ends_by_gradients(1));
  uses.forget(told);
}

TEST_F(UnitUsesTest, AnUpdateOutdatesWhatWasThereBefore) {
  const UnitUses::Id old = use(0, 1);
  EXPECT_FALSE(uses.is_outdated(old));
  uses.note_update();
  EXPECT_TRUE(uses.is_outdated(old));
  EXPECT_FALSE(uses.is_outdated(use(0, 2)));
}

}  // namespace
}  // namespace zeroshard
