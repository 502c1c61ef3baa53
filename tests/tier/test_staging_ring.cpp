// Slots are used in turn, never by two at once, and are counted.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/tier/staging_ring.h"

namespace zeroshard {
namespace {

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(StagingRing, IsCountedToTheByteAndOnTheHost) {
  StateMemory memory(kCpu);
  {
    StagingRing ring(memory, size_staging_ring(3, 1280));
    EXPECT_EQ(memory.ledger().bytes(Category::buffers, Tier::host), 3 * 1280);
    EXPECT_EQ(memory.ledger().total(Tier::device), 0);
    EXPECT_EQ(ring.slots(), 3);
    EXPECT_EQ(ring.slot_bytes(), 1280);
  }
  EXPECT_EQ(memory.ledger().total(Tier::host), 0);
}

TEST(StagingRing, GivesItsSlotsInTurn) {
  StateMemory memory(kCpu);
  StagingRing ring(memory, size_staging_ring(2, 256));
  std::byte *first = nullptr, *second = nullptr;
  {
    StagingRing::Slot one = ring.take(), two = ring.take();
    first = one.data();
    second = two.data();
    EXPECT_EQ(second, first + 256);
  }
  EXPECT_EQ(ring.take().data(), first) << "a slot that was not used goes back by itself";
  EXPECT_EQ(ring.take().data(), second);
}

TEST(StagingRing, ASlotIsTakenAgainAfterItsLastUse) {
  StateMemory memory(kCpu);
  StagingRing ring(memory, size_staging_ring(1, 256));
  const Stream user = Stream::make(kCpu);
  user.run(nap);
  Event used;
  used.record(user);
  ring.take().used_until(used);
  const StagingRing::Slot again = ring.take();
  EXPECT_TRUE(used.done());
}

TEST(StagingRing, ASlotInOtherHandsIsWaitedFor) {
  StateMemory memory(kCpu);
  StagingRing ring(memory, size_staging_ring(1, 256));
  std::atomic<bool> back = false;
  StagingRing::Slot slot = ring.take();
  std::thread other([&, held = std::move(slot)]() mutable {
    nap();
    back = true;
    held.used_until({});
  });
  const StagingRing::Slot again = ring.take();
  EXPECT_TRUE(back);
  other.join();
}

TEST(StagingRing, AUseThatFailedIsOverAllTheSame) {
  StateMemory memory(kCpu);
  StagingRing ring(memory, size_staging_ring(1, 256));
  const Stream user = Stream::make(kCpu);
  user.run([] { throw std::runtime_error("a copy"); });
  Event used;
  used.record(user);
  ring.take().used_until(used);
  EXPECT_NO_THROW(ring.take());
  EXPECT_THROW(user.synchronize(), std::runtime_error);
}

TEST(StagingRing, WithoutSlotsNothingCanBeTaken) {
  StateMemory memory(kCpu);
  StagingRing ring(memory, {});
  EXPECT_THROW(ring.take(), InvariantError);
}

// Several threads fill slots, and side streams read them later: nobody sees another's values.
TEST(StagingRing, ManyThreadsNeverShareASlot) {
  StateMemory memory(kCpu);
  StagingRing ring(memory, size_staging_ring(3, 256));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      const Stream reader = Stream::make(kCpu);
      for (int i = 0; i < 100; ++i) {
        StagingRing::Slot slot = ring.take();
        const auto value = static_cast<std::byte>(number * 37 + i);
        std::byte* const data = slot.data();
        std::fill_n(data, 256, value);
        reader.run([&wrong, data, value] {
          wrong += static_cast<int>(std::count(data, data + 256, value) != 256);
        });
        Event read;
        read.record(reader);
        slot.used_until(read);
      }
      reader.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace zeroshard
