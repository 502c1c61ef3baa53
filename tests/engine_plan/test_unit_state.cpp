// Which moves a unit's two state machines allow, and what the others say.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/engine/unit_state.h"

namespace zeroshard {
namespace {

template <typename State>
using Moves = std::vector<std::pair<State, State>>;

template <typename State>
void expect_only(const std::vector<State>& states, const Moves<State>& allowed) {
  for (const State from : states) {
    for (const State to : states) {
      State state = from;
      const bool may = std::ranges::find(allowed, std::pair(from, to)) != allowed.end();
      const std::string move = std::string(name_of(from)) + " to " + std::string(name_of(to));
      if (may) {
        EXPECT_NO_THROW(move_to(state, to, "block.3")) << move;
        EXPECT_EQ(state, to) << move;
      } else {
        EXPECT_THROW(move_to(state, to, "block.3"), StateError) << move;
        EXPECT_EQ(state, from) << "changed by a refused move, " << move;
      }
    }
  }
}

TEST(UnitState, ParametersMoveAsTheMemoryTheyHoldDoes) {
  using enum ParameterState;
  expect_only<ParameterState>(
      {sharded, gathering, ready},
      {{sharded, gathering}, {gathering, ready}, {ready, sharded}, {ready, gathering}});
}

TEST(UnitState, GradientsMoveAsTheMemoryTheyHoldDoes) {
  using enum GradientState;
  expect_only<GradientState>({empty, filling, reducing, reduced}, {{empty, filling},
                                                                   {filling, reducing},
                                                                   {filling, empty},
                                                                   {reducing, reduced},
                                                                   {reduced, empty},
                                                                   {reduced, filling}});
}

TEST(UnitState, ARefusedMoveNamesTheUnit) {
  ParameterState state = ParameterState::sharded;
  try {
    move_to(state, ParameterState::ready, "block.3");
    FAIL() << "nothing was thrown";
  } catch (const StateError& error) {
    EXPECT_STREQ(error.what(),
                 "[state] the parameters of unit block.3 cannot become ready: they are sharded");
  }
}

}  // namespace
}  // namespace zeroshard
