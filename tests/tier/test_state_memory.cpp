// States say where they are and who uses them; the ledger counts them.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/fake_accelerator.h"
#include "zeroshard/base/error.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {
namespace {

constexpr Device kFake = FakeAccelerator::device();

TEST(StateBuffer, SaysWhereItIs) {
  FakeAccelerator::install();
  StateMemory memory(kFake);
  const StateBuffer master = memory.allocate(Category::master, Tier::device, 100);
  EXPECT_EQ(master.device(), kFake);
  EXPECT_EQ(master.tier(), Tier::device);
  EXPECT_EQ(master.bytes(), 256);
  EXPECT_EQ(memory.ledger().bytes(Category::master, Tier::device), 256);
}

TEST(StateBuffer, OrdersTheStreamsThatUseIt) {
  FakeAccelerator& fake = FakeAccelerator::install();
  StateMemory memory(kFake);
  StateBuffer state = memory.allocate(Category::master, Tier::device, 100);
  const Stream update = Stream::make(kFake), compute = Stream::make(kFake);
  int value = 0, seen = 0;
  state.before_write(update);
  fake.launch(update, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    value = 1;
  });
  state.wrote(update);
  state.before_read(compute);
  fake.launch(compute, [&] { seen = value; });
  state.read(compute);
  state.before_write(update);
  fake.launch(update, [&] { value = 2; });
  state.wrote(update);
  state = StateBuffer();
  EXPECT_EQ(value, 2) << "memory goes after its last use";
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(memory.ledger().bytes(Category::master, Tier::device), 0);
}

TEST(StateMemory, OutOfDeviceMemorySaysWhatWasAskedForAndWhatIsHeld) {
  FakeAccelerator::install();
  StateMemory memory(kFake);
  const StateBuffer held = memory.allocate(Category::master, Tier::device, 512 << 20);
  const StateBuffer more = memory.allocate(Category::buffers, Tier::device, 1 << 20);
  const StateBuffer host = memory.allocate(Category::moments, Tier::host, 256);
  try {
    memory.allocate(Category::gradients, Tier::device, 768 << 20);
    FAIL() << "no error";
  } catch (const StorageError& error) {
    const std::string words = error.what();
    for (const char* expected : {"out of memory while 768.00 MiB of gradients", "on cuda:0",
                                 "hold 513.00 MiB of device memory", "\n  master     512.00 MiB\n",
                                 "\n  buffers    1.00 MiB; use a smaller", "offload"}) {
      EXPECT_NE(words.find(expected), std::string::npos) << words;
    }
    EXPECT_EQ(words.find("moments"), std::string::npos) << "those lie elsewhere: " << words;
  }
  EXPECT_EQ(memory.ledger().bytes(Category::gradients, Tier::device), 0);
}

TEST(StateMemory, HasNoDiskYet) {
  StateMemory memory(kCpu);
  try {
    memory.allocate(Category::master, Tier::disk, 1);
    FAIL() << "no error";
  } catch (const StorageError& error) {
    EXPECT_NE(error.fault().remedy.find("cpu"), std::string::npos);
  }
}

TEST(StateMemory, GivesUnusedDeviceMemoryBack) {
  const std::int64_t before = FakeAccelerator::install().trims();
  StateMemory(kFake).trim_device();
  EXPECT_EQ(FakeAccelerator::install().trims(), before + 1);
}

TEST(MemoryLedger, RemembersTheMost) {
  StateMemory memory(kCpu);
  {
    const StateBuffer one = memory.allocate(Category::master, Tier::device, 256);
    const StateBuffer two = memory.allocate(Category::gradients, Tier::device, 512);
  }
  const MemoryLedger& ledger = memory.ledger();
  EXPECT_EQ(ledger.total(Tier::device), 0);
  EXPECT_EQ(ledger.peak_total(Tier::device), 768);
  EXPECT_EQ(ledger.peak(Category::gradients, Tier::device), 512);
  memory.ledger().forget_peaks();
  EXPECT_EQ(ledger.peak_total(Tier::device), 0);
}

}  // namespace
}  // namespace zeroshard
