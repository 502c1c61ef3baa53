#include "zeroshard/tier/staging_ring.h"

#include "zeroshard/base/check.h"

namespace zeroshard {

StagingRing::StagingRing(StateMemory& memory, const Ring& plan)
    : slot_bytes_(plan.slot_bytes),
      memory_(memory.allocate_ring(plan.total_bytes)),
      uses_(static_cast<std::size_t>(plan.slots)) {
  ZS_CHECK_LE(plan.slot_bytes * plan.slots, plan.total_bytes, "bytes of a ring's slots");
}

StagingRing::~StagingRing() {
  for (const Use& use : uses_) use.last.wait_until_over();
}

StagingRing::Slot StagingRing::take() {
  ZS_CHECK(!uses_.empty() && slot_bytes_ > 0, "a slot of an empty ring");
  std::unique_lock lock(mutex_);
  const std::size_t number = next_++ % uses_.size();
  Use& use = uses_[number];
  returned_.wait(lock, [&] { return !use.taken; });
  use.taken = true;
  const Event last = std::exchange(use.last, {});
  lock.unlock();
  last.wait_until_over();
  return {*this, number};
}

void StagingRing::give_back(std::size_t number, const Event& last_use) {
  {
    const std::lock_guard lock(mutex_);
    uses_[number] = {false, last_use};
  }
  returned_.notify_all();
}

std::byte* StagingRing::data_of(std::size_t number) const {
  return static_cast<std::byte*>(memory_.data()) + static_cast<std::int64_t>(number) * slot_bytes_;
}

}  // namespace zeroshard
