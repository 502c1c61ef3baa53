// A unit's two small state machines. Each state is defined by the memory it holds; any other move
// is a bug or a misuse, and names the unit.
#pragma once

#include <string>
#include <string_view>

namespace zeroshard {

enum class ParameterState {
  sharded,    // the shard alone
  gathering,  // a full buffer that is being filled
  ready,      // a full buffer that may be read
};

enum class GradientState {
  empty,     // nothing
  filling,   // the local gradient, not complete
  reducing,  // the local gradient, given to a reduction
  reduced,   // G
};

std::string_view name_of(ParameterState state);
std::string_view name_of(GradientState state);

// Sets `state` to `next`, or throws StateError.
void move_to(ParameterState& state, ParameterState next, const std::string& unit);
void move_to(GradientState& state, GradientState next, const std::string& unit);

}  // namespace zeroshard
