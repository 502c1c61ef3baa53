// Slots of host memory that are used in turn, by one thread at a time. Who takes a slot waits for its
// last user (StateBuffer::before_write) and says who uses it (StateBuffer::read).
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/layout/pool.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

class HostRing {
 public:
  HostRing(const Ring& ring, StateMemory& memory) : slot_bytes_(ring.slot_bytes) {
    for (int i = 0; i < ring.slots; ++i) {
      slots_.push_back(memory.allocate(Category::buffers, Tier::host, slot_bytes_));
    }
  }

  std::int64_t slot_bytes() const { return slot_bytes_; }
  StateBuffer& next() {
    StateBuffer& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    return slot;
  }

 private:
  const std::int64_t slot_bytes_;
  std::vector<StateBuffer> slots_;
  std::size_t next_ = 0;
};

}  // namespace zeroshard
