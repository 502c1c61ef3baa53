#include "zeroshard/tier/state_moves.h"

#include <utility>

#include "zeroshard/tier/staging_ring.h"

namespace zeroshard {
namespace {

// Memory that is not pinned is copied through slots of this size.
constexpr std::int64_t kSlotBytes = 16 << 20;
constexpr int kSlots = 3;

// While one state is copied the next one's memory is made.
constexpr std::size_t kMovesAtOnce = 2;

std::int64_t bytes_of(const std::vector<StateBuffer*>& states) {
  std::int64_t sum = 0;
  for (const StateBuffer* state : states) sum += state->bytes();
  return sum;
}

}  // namespace

StateMoves::~StateMoves() {
  try {
    finish();
  } catch (...) {  // whoever moved them is gone
  }
}

void StateMoves::start(std::vector<StateBuffer*> states, Tier to, const Options& options) {
  std::erase_if(
      states, [&](const StateBuffer* state) { return state->bytes() == 0 || state->tier() == to; });
  if (states.empty() && to == Tier::device) return;
  if (to == Tier::host) memory_.check_host_room(bytes_of(states));
  Stream worker = Stream::make(kCpu);
  options.accepted();
  worker_ = std::move(worker);
  worker_->run([this, states = std::move(states), to, pin = options.pin] { run(states, to, pin); });
}

void StateMoves::finish() {
  if (!worker_) return;
  const Stream worker = *std::exchange(worker_, std::nullopt);
  worker.synchronize();
}

void StateMoves::run(const std::vector<StateBuffer*>& states, Tier to, bool pin) {
  {
    StagingRing ring(memory_, size_staging_ring(kSlots, kSlotBytes));
    std::deque<Move> moves;
    CopyStream copies(memory_.device(), &ring);  // its end waits for all copies
    for (StateBuffer* const state : states) {
      Move& move = moves.emplace_back();
      move.state = state;
      move.there = memory_.allocate_apart(state->category(), to, state->bytes(), pin);
      move.copied = copy(copies, *state, move.there);
      settle(moves, kMovesAtOnce - 1);
    }
    settle(moves, 0);
  }
  if (to == Tier::host) memory_.trim_device();
}

// Memory of the device may be a block that somebody has just given back while his work on it is
// still pending: it is his stream's, and ours is had in the same stream's order.
Event StateMoves::copy(CopyStream& copies, const StateBuffer& from, const StateBuffer& there) {
  const bool down = there.tier() == Tier::host;
  const TierCopy whole{there.data(), from.data(), from.bytes(),
                       down ? there.pinned() : from.pinned()};
  const Stream had_on = Stream::current(memory_.device());
  return down ? copies.down({whole}, had_on) : copies.up({whole}, had_on);
}

// A state is where it was until all of it has arrived.
void StateMoves::settle(std::deque<Move>& moves, std::size_t at_most) {
  while (moves.size() > at_most) {
    moves.front().copied.synchronize();
    *moves.front().state = std::move(moves.front().there);
    moves.pop_front();
  }
}

}  // namespace zeroshard
