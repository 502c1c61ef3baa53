#include "zeroshard/engine/offloaded_states.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"

namespace zeroshard {

void OffloadedStates::finish_move() {
  const auto at_end = std::exchange(at_end_, nullptr);
  moves_.finish();
  if (!at_end) return;
  at_end();
  states_.clear();
}

void OffloadedStates::require(std::initializer_list<Category> states, const char* what) {
  finish_move();
  std::string missing;
  for (const Category category : states) {
    if (!states_.contains(category)) continue;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name_of(category));
  }
  if (missing.empty()) return;
  throw StateError(
      {.what = fmt::format("{} needs states that offload_states() has put on the host", what),
       .value = std::move(missing),
       .remedy = "call reload_states() first"});
}

// They count as offloaded from here on, whatever becomes of the move: reload_states() brings back
// what has left.
void OffloadedStates::begin_offload(const std::set<Category>& states,
                                    std::vector<StateBuffer*> memory, bool pin,
                                    std::function<void()> accepted) {
  moves_.start(std::move(memory), Tier::host, {.pin = pin, .accepted = std::move(accepted)});
  states_.insert(states.begin(), states.end());
}

void OffloadedStates::begin_reload(std::vector<StateBuffer*> memory, std::function<void()> at_end) {
  moves_.start(std::move(memory), Tier::device, {});
  at_end_ = std::move(at_end);
}

}  // namespace zeroshard
