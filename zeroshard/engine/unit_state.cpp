#include "zeroshard/engine/unit_state.h"

#include <fmt/format.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

bool allowed(ParameterState from, ParameterState to) {
  using enum ParameterState;
  switch (from) {
    case sharded: return to == gathering;
    case gathering: return to == ready;
    // Back to gathering: after an update the same buffer is filled again.
    case ready: return to == sharded || to == gathering;
  }
  return false;
}

bool allowed(GradientState from, GradientState to) {
  using enum GradientState;
  switch (from) {
    case empty: return to == filling;
    // Dropped, where a backward ends in an exception.
    case filling: return to == reducing || to == empty;
    case reducing: return to == reduced;
    // Filling again: the next micro-step, or a second backward.
    case reduced: return to == empty || to == filling;
  }
  return false;
}

template <typename State>
void move(State& state, State next, const std::string& unit, std::string_view what) {
  if (!allowed(state, next)) {
    throw StateError(
        {.what = fmt::format("the {} of unit {} cannot become {}", what, unit, name_of(next)),
         .value = fmt::format("they are {}", name_of(state))});
  }
  state = next;
}

}  // namespace

std::string_view name_of(ParameterState state) {
  switch (state) {
    case ParameterState::sharded: return "sharded";
    case ParameterState::gathering: return "gathering";
    case ParameterState::ready: return "ready";
  }
  return "?";
}

std::string_view name_of(GradientState state) {
  switch (state) {
    case GradientState::empty: return "empty";
    case GradientState::filling: return "filling";
    case GradientState::reducing: return "reducing";
    case GradientState::reduced: return "reduced";
  }
  return "?";
}

void move_to(ParameterState& state, ParameterState next, const std::string& unit) {
  move(state, next, unit, "parameters");
}

void move_to(GradientState& state, GradientState next, const std::string& unit) {
  move(state, next, unit, "gradients");
}

}  // namespace zeroshard
