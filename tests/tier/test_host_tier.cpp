// The host tier: exact, pinned where it is asked for, refused where there is not enough, and given
// back to the kernel at its end.
#include <algorithm>
#include <fstream>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/fake_accelerator.h"
#include "tests/support/temporary_folder.h"
#include "tests/tier/memory_maps.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {
namespace {

constexpr Device kAccelerator = FakeAccelerator::device();

void fill(const StateBuffer& buffer, unsigned char value) {
  std::fill_n(static_cast<unsigned char*>(buffer.data()), buffer.bytes(), value);
}

bool holds(const StateBuffer& buffer, unsigned char value) {
  const auto* data = static_cast<const unsigned char*>(buffer.data());
  for (std::int64_t i = 0; i < buffer.bytes(); ++i) {
    if (data[i] != value) return false;
  }
  return true;
}

TEST(HostTier, IsMemoryOfTheHostThatTheLedgerCounts) {
  StateMemory memory(kCpu);
  const StateBuffer master = memory.allocate(Category::master, Tier::host, 1000);
  EXPECT_EQ(master.tier(), Tier::host);
  EXPECT_EQ(master.device(), kCpu);
  EXPECT_EQ(master.bytes(), 1024) << "whole buffers, and no power of two by intent";
  EXPECT_EQ(memory.allocate(Category::moments, Tier::host, 1025).bytes(), 1280);
  EXPECT_EQ(memory.ledger().bytes(Category::master, Tier::host), 1024);
  EXPECT_EQ(memory.ledger().total(Tier::device), 0);
  EXPECT_EQ(memory.allocate(Category::moments, Tier::host, 0).bytes(), 0);
}

TEST(HostTier, TheArenaIsMappedOnceAndToThePage) {
  constexpr std::int64_t kBytes = (std::int64_t{9} << 20) + 256;
  StateMemory memory(kCpu);
  memory.reserve_host(kBytes);
  const StateBuffer first = memory.allocate(Category::master, Tier::host, kBytes - 512);
  const StateBuffer second = memory.allocate(Category::moments, Tier::host, 512);
  const auto* begin = static_cast<const std::byte*>(first.data());
  EXPECT_EQ(second.data(), begin + kBytes - 512);
  const auto range = mapping_of(begin);
  ASSERT_TRUE(range.has_value());
  EXPECT_TRUE(range->has("dc")) << "forked children do not get it:" << range->flags;
  EXPECT_TRUE(range->has("hg")) << range->flags;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin) % (2U << 20U), 0U);
  EXPECT_EQ(mapping_of(begin + kBytes - 1)->end, range->end);
  EXPECT_LT(range->end - reinterpret_cast<std::uintptr_t>(begin + kBytes),
            static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)));
}

TEST(HostTier, GoesBackToTheKernelWithItsLastBuffer) {
  StateBuffer kept;
  {
    StateMemory memory(kCpu);
    memory.reserve_host(5 << 20);
    kept = memory.allocate(Category::master, Tier::host, 4 << 20);
    fill(kept, 7);
  }
  EXPECT_TRUE(holds(kept, 7)) << "a buffer may outlive the memory it came from";
  const void* data = kept.data();
  kept = StateBuffer();
  const auto range = mapping_of(data);
  EXPECT_FALSE(range.has_value() && range->has("dc")) << "the arena is still there";
}

TEST(HostTier, WhatGoesBeyondTheReservationWorksToo) {
  StateMemory memory(kCpu);
  memory.reserve_host(1 << 20);
  std::vector<StateBuffer> buffers;
  for (unsigned char i = 0; i < 6; ++i) {
    buffers.push_back(memory.allocate(Category::master, Tier::host, 300'000));
    fill(buffers.back(), i);
  }
  for (unsigned char i = 0; i < 6; ++i) EXPECT_TRUE(holds(buffers[i], i));
  EXPECT_EQ(memory.ledger().total(Tier::host), 6 * 300'032);
}

TEST(HostTier, RandomSizesAndOrdersKeepTheirContents) {
  std::mt19937 random(11);
  StateMemory memory(kCpu);
  memory.reserve_host(3 << 20);
  struct Kept {
    StateBuffer buffer;
    unsigned char value;
  };
  std::vector<Kept> kept;
  std::int64_t bytes = 0;
  for (int step = 0; step < 400; ++step) {
    if (kept.empty() || random() % 5 < 3) {
      const auto value = static_cast<unsigned char>(random());
      kept.push_back({memory.allocate(Category::master, Tier::host, random() % 100'000), value});
      fill(kept.back().buffer, value);
      bytes += kept.back().buffer.bytes();
    } else {
      std::swap(kept[random() % kept.size()], kept.back());
      EXPECT_TRUE(holds(kept.back().buffer, kept.back().value));
      bytes -= kept.back().buffer.bytes();
      kept.pop_back();
    }
    ASSERT_EQ(memory.ledger().total(Tier::host), bytes);
  }
  for (const Kept& each : kept) EXPECT_TRUE(holds(each.buffer, each.value));
}

TEST(HostTier, IsReservedOnceAndWhatCameBeforeStaysWhereItIs) {
  StateMemory memory(kCpu);
  memory.reserve_host(0);
  memory.reserve_host(1024);
  EXPECT_THROW(memory.reserve_host(1024), InvariantError);
  StateMemory late(kCpu);
  const StateBuffer early = late.allocate(Category::master, Tier::host, 1024);
  fill(early, 3);
  late.reserve_host(1024);
  const StateBuffer inside = late.allocate(Category::master, Tier::host, 1024);
  fill(inside, 4);
  EXPECT_TRUE(holds(early, 3) && holds(inside, 4));
}

TEST(HostTier, WithTheCpuAsDeviceItIsAsPinnedAsItIsAskedFor) {
  for (const bool pin : {true, false}) {
    StateMemory memory(kCpu, {.pin = pin});
    memory.reserve_host(256);
    EXPECT_EQ(memory.allocate(Category::master, Tier::host, 256).pinned(), pin);
    EXPECT_EQ(memory.allocate(Category::master, Tier::host, 512).pinned(), pin);
    EXPECT_TRUE(memory.allocate_ring(512).pinned());
    EXPECT_FALSE(memory.allocate(Category::master, Tier::device, 256).pinned());
  }
}

class Pinning : public testing::Test {
 protected:
  void SetUp() override { fake_.limit_pinning(std::int64_t{1} << 40); }
  void TearDown() override {
    fake_.limit_pinning(std::int64_t{1} << 40);
    EXPECT_EQ(fake_.pinned_bytes(), 0) << "what was registered is unregistered";
  }

  FakeAccelerator& fake_ = FakeAccelerator::install();
  std::vector<std::string> warnings_;
  const LogScope scope_{{.level = LogLevel::warning, .rank = LogSettings::kAllRanks},
                        [&](LogLevel, std::string_view line) { warnings_.emplace_back(line); }};
};

TEST_F(Pinning, RegistersTheArenaOnceAndWholly) {
  StateMemory memory(kAccelerator);
  memory.reserve_host(1 << 20);
  EXPECT_EQ(fake_.pinned_bytes(), 1 << 20);
  const StateBuffer state = memory.allocate(Category::master, Tier::host, 5000);
  EXPECT_TRUE(state.pinned());
  EXPECT_TRUE(fake_.is_pinned(0, state.data()));
  EXPECT_EQ(fake_.pinned_bytes(), 1 << 20);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Pinning, LeavesMemoryAloneThatShallNotBePinned) {
  StateMemory memory(kAccelerator, {.pin = false});
  memory.reserve_host(1 << 20);
  EXPECT_EQ(fake_.pinned_bytes(), 0);
  EXPECT_FALSE(memory.allocate(Category::master, Tier::host, 5000).pinned());
  EXPECT_TRUE(memory.allocate_ring(8192).pinned());
}

TEST_F(Pinning, ThatFailsIsOneWarningWithTheLimitAndTheCommand) {
  fake_.limit_pinning(100'000);
  StateMemory memory(kAccelerator);
  memory.reserve_host(1 << 20);
  const StateBuffer inside = memory.allocate(Category::master, Tier::host, 1 << 20);
  const StateBuffer beyond = memory.allocate(Category::master, Tier::host, 300'000);
  EXPECT_FALSE(inside.pinned() || beyond.pinned());
  fill(inside, 1);
  ASSERT_EQ(warnings_.size(), 1U);
  for (const char* words : {"[memory] 1.00 MiB", "too much for this fake", "locked memory",
                            "ulimit -l unlimited", "pin_memory"}) {
    EXPECT_NE(warnings_[0].find(words), std::string::npos) << warnings_[0];
  }
  EXPECT_TRUE(memory.allocate_ring(8192).pinned()) << "rings are small";
}

// The soft limit of this process for the length of a test.
class MemlockScope {
 public:
  explicit MemlockScope(rlim_t bytes) {
    getrlimit(RLIMIT_MEMLOCK, &outer_);
    rlimit mine = outer_;
    mine.rlim_cur = bytes;
    worked_ = setrlimit(RLIMIT_MEMLOCK, &mine) == 0;
  }
  ~MemlockScope() { setrlimit(RLIMIT_MEMLOCK, &outer_); }
  MemlockScope(const MemlockScope&) = delete;
  MemlockScope& operator=(const MemlockScope&) = delete;
  bool worked() const { return worked_; }

 private:
  rlimit outer_{};
  bool worked_ = false;
};

TEST_F(Pinning, TheWarningHasTheLimitThatThisProcessHas) {
  fake_.limit_pinning(100'000);
  for (const std::int64_t kib : {64, 192}) {
    const MemlockScope scope(static_cast<rlim_t>(kib * 1024));
    ASSERT_TRUE(scope.worked());
    warnings_.clear();
    StateMemory memory(kAccelerator);
    memory.reserve_host(1 << 20);
    ASSERT_EQ(warnings_.size(), 1U);
    const std::string words = "the limit of locked memory is " + human_bytes(kib * 1024) + ";";
    EXPECT_NE(warnings_[0].find(words), std::string::npos) << warnings_[0];
  }
}

class TooLittle : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_.path() / "proc");
    std::ofstream(folder_.path() / "proc/meminfo") << "MemAvailable: 4096 kB\n";
  }

  const test::TemporaryFolder folder_;
};

TEST_F(TooLittle, HostMemoryIsRefusedBeforeAnythingIsMapped) {
  StateMemory memory(kCpu, {.limits = folder_.path()});
  try {
    memory.reserve_host(std::int64_t{1} << 50);  // mapping and touching it would not end well
    FAIL() << "no error";
  } catch (const StorageError& error) {
    EXPECT_NE(error.fault().value.find("1.00 PiB are needed and 4.00 MiB"), std::string::npos)
        << error.what();
    EXPECT_NE(error.fault().value.find("meminfo"), std::string::npos) << error.what();
    EXPECT_NE(error.fault().remedy, "");
  }
  memory.reserve_host(4 << 20);
}

TEST_F(TooLittle, SoAreStatesBeyondTheReservation) {
  StateMemory memory(kCpu, {.limits = folder_.path()});
  EXPECT_THROW(memory.allocate(Category::master, Tier::host, 5 << 20), StorageError);
  EXPECT_EQ(memory.ledger().total(Tier::host), 0);
}

}  // namespace
}  // namespace zeroshard
