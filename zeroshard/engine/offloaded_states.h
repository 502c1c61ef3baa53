// Which states offload_states() has put on the host, and the move under way.
#pragma once

#include <functional>
#include <initializer_list>
#include <set>
#include <vector>

#include "zeroshard/layout/category.h"
#include "zeroshard/tier/state_moves.h"

namespace zeroshard {

class OffloadedStates {
 public:
  explicit OffloadedStates(StateMemory& memory) : moves_(memory) {}

  struct Request {
    std::set<Category> states = {kCategories.begin(), kCategories.end()};
    bool pin = true;     // the host's memory
    bool blocks = true;  // else the move goes on, and the engine's next call waits for it
  };

  // Waits for the move under way, and throws what went wrong with it.
  void finish_move();
  // The same. Throws StateError where some of `states` are on the host: `what`, "step()", needs
  // them.
  void require(std::initializer_list<Category> states, const char* what);

  // `memory`: of the states, where they belong on the device. A host without room refuses, and
  // nothing has changed; else `accepted` is called before the move begins.
  void begin_offload(const std::set<Category>& states, std::vector<StateBuffer*> memory, bool pin,
                     std::function<void()> accepted);
  // `at_end` is called by whoever finishes the move, once all has come back.
  void begin_reload(std::vector<StateBuffer*> memory, std::function<void()> at_end);
  const std::set<Category>& states() const { return states_; }

 private:
  std::set<Category> states_;
  std::function<void()> at_end_;
  StateMoves moves_;
};

}  // namespace zeroshard
