// What ranks tell each other in a round of launches (launch_order.h), and what follows from it:
// arithmetic over lists, the same on every rank.
//
// Every lane tells the first operations that wait in it, and what is launched of it is the longest
// beginning that all ranks have told alike. The lanes take turns: the first operation of every
// lane, in the order of their numbers, then the second ones, and so on. So no operation is launched
// behind more of another lane's than are before it in its own. A lane after the other would be the
// worse order: gathers run ahead of the computation, by as many units as prefetch allows, while a
// reduction is waited for by the next bucket that needs its memory; five gathers that nobody needs
// yet would go before it. Reductions first would be as bad where the computation waits for its next
// gather. By turns what each lane needs next goes first, on all ranks, without their knowing which
// lane is whose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace zeroshard {

// An operation that waits, by the hash of its tag. Numbers of lanes count from 1, so 0 is none.
struct WaitingCall {
  std::uint64_t lane = 0;
  std::uint64_t tag = 0;
};

// By lane, in order.
using WaitingTags = std::map<std::uint64_t, std::vector<std::uint64_t>>;

// What a rank tells: of every lane the first operation, whatever their number, and of what else
// there is as many as there is room for, by turns.
std::vector<WaitingCall> told_by_turns(const WaitingTags& waiting, std::size_t room);

struct RoundResult {
  // To be launched, in this order: each names its lane, whose next operation it is.
  std::vector<std::uint64_t> lanes = {};
  // A lane, and the place in it, where ranks have brought different operations; 0: none has.
  std::uint64_t different = 0;
  std::size_t place = 0;
};

// Of what all ranks have told, the same number of entries each (empty ones where they had less).
RoundResult common_beginning(const std::vector<WaitingCall>& told, std::size_t ranks);

}  // namespace zeroshard
