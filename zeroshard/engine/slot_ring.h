// Slots of memory that states pass through between tiers, used in turn, by one thread at a time.
// Who takes a slot waits for its last user (StateBuffer::before_write) and says who uses it (read).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "zeroshard/layout/tier_plan.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

class SlotRing {
 public:
  SlotRing(const Ring& ring, Tier tier, StateMemory& memory)
      : memory_(memory),
        tier_(tier),
        slot_bytes_(ring.slots > 0 ? ring.slot_bytes : kStagingPieceBytes),
        count_(std::max(ring.slots, 1)) {
    if (ring.slots > 0) make_slots();
  }

  std::int64_t slot_bytes() const { return slot_bytes_; }
  // Where the plan foresaw that nothing passes, and something does, there is one slot.
  StateBuffer& next() {
    if (slots_.empty()) make_slots();
    StateBuffer& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    return slot;
  }

  // Gives the slots back, until one is wanted.
  void drop() {
    slots_.clear();
    next_ = 0;
  }

 private:
  void make_slots() {
    for (int i = 0; i < count_; ++i) {
      slots_.push_back(tier_ == Tier::host
                           ? memory_.allocate_ring(slot_bytes_)
                           : memory_.allocate(Category::buffers, tier_, slot_bytes_));
    }
  }

  StateMemory& memory_;
  const Tier tier_;
  const std::int64_t slot_bytes_;
  const int count_;
  std::vector<StateBuffer> slots_;
  std::size_t next_ = 0;
};

}  // namespace zeroshard
