// Moves states to the other tier for a while, on a thread of its own. Nothing of them is left
// where they were: what leaves the device goes back to the driver, for other processes.
//
//   StateMoves moves(memory);
//   moves.start({&moments, &master}, Tier::host, {.pin = true});
//   moves.finish();   // they are there; throws what went wrong
//
// Until finish() nobody may touch the states, or allocate. After an error each of them is whole on
// one of the two tiers, and start() of either direction moves those that are not where they should
// be.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "zeroshard/device/event.h"
#include "zeroshard/tier/copy_stream.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

class StateMoves {
 public:
  explicit StateMoves(StateMemory& memory) : memory_(memory) {}
  ~StateMoves();
  StateMoves(const StateMoves&) = delete;
  StateMoves& operator=(const StateMoves&) = delete;

  struct Options {
    bool pin = true;  // what goes to the host
    // Called once nothing more can refuse the move, and before it begins.
    std::function<void()> accepted = [] {};
  };
  // Nothing of the device may be under way on the states. What is there already stays. Throws
  // StorageError where the host has no room for all of them, before anything is moved.
  void start(std::vector<StateBuffer*> states, Tier to, const Options& options);
  bool under_way() const { return worker_.has_value(); }
  void finish();

 private:
  // A state's new memory, into which it is being copied.
  struct Move {
    StateBuffer* state = nullptr;
    StateBuffer there = {};
    Event copied = {};
  };

  void run(const std::vector<StateBuffer*>& states, Tier to, bool pin);
  Event copy(CopyStream& copies, const StateBuffer& from, const StateBuffer& there);
  static void settle(std::deque<Move>& moves, std::size_t at_most);

  StateMemory& memory_;
  std::optional<Stream> worker_;
};

}  // namespace zeroshard
