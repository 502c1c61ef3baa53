// A few slots of host memory, pinned where that can be done, that values pass through on their way
// between tiers.
//
//   StagingRing ring(memory, size_staging_ring(2, slot_bytes));
//   StagingRing::Slot slot = ring.take();      // blocks until the slot's last use is over
//   write_new_values(slot.data());
//   slot.used_until(copies.up({{to, slot.data(), bytes, ring.pinned()}}));
//
// The ledger counts it as buffers of the host tier. Any thread may take slots, and one thread may
// take a slot that another says the last use of.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "zeroshard/device/event.h"
#include "zeroshard/layout/pool.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

class StagingRing {
 public:
  // A slot in somebody's hands. It goes back when it is told its last use, or else at its end.
  class Slot {
   public:
    Slot(StagingRing& ring, std::size_t number) : ring_(&ring), number_(number) {}
    ~Slot() {
      if (ring_ != nullptr) ring_->give_back(number_, {});
    }
    Slot(Slot&& other) noexcept
        : ring_(std::exchange(other.ring_, nullptr)), number_(other.number_) {}
    Slot& operator=(Slot&&) = delete;

    std::byte* data() const { return ring_->data_of(number_); }
    // The slot is taken next when this is over, well or not. It is nobody's from now on.
    void used_until(const Event& last_use) {
      std::exchange(ring_, nullptr)->give_back(number_, last_use);
    }

   private:
    StagingRing* ring_;
    std::size_t number_;
  };

  // Slots are of the plan's exact size. Throws StorageError.
  StagingRing(StateMemory& memory, const Ring& plan);
  // Waits until all uses are over.
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // The slots are taken in turn.
  Slot take();
  std::int64_t slot_bytes() const { return slot_bytes_; }
  int slots() const { return static_cast<int>(uses_.size()); }
  bool pinned() const { return memory_.pinned(); }

 private:
  struct Use {
    bool taken = false;
    Event last;
  };

  void give_back(std::size_t number, const Event& last_use);
  std::byte* data_of(std::size_t number) const;

  const std::int64_t slot_bytes_;
  StateBuffer memory_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<Use> uses_;  // of each slot
  std::size_t next_ = 0;
};

}  // namespace zeroshard
