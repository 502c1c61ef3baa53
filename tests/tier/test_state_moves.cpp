// States that move to the other tier and back: every byte, on the CPU and on an accelerator, pinned
// or not; what fails leaves each of them whole somewhere.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/device/device_case.h"
#include "tests/support/fake_accelerator.h"
#include "tests/support/temporary_folder.h"
#include "zeroshard/base/error.h"
#include "zeroshard/device/stalls.h"
#include "zeroshard/tier/state_moves.h"

namespace zeroshard {
namespace {

constexpr Device kMovesFrom = FakeAccelerator::device();

Bytes contents(const StateBuffer& state) {
  Bytes bytes(static_cast<std::size_t>(state.bytes()));
  const Stream stream = Stream::make(state.device());
  copy_bytes(stream, bytes.data(), kCpu, state.data(), state.device(), state.bytes());
  stream.synchronize();
  return bytes;
}

Bytes values(std::size_t bytes, unsigned seed) {
  Bytes all(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    all[i] = static_cast<unsigned char>(i * 31 + i / 253 + seed);
  return all;
}

class MovedStates {
 public:
  MovedStates(StateMemory& memory, const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      states_.push_back(memory.allocate(i % 2 == 0 ? Category::moments : Category::master,
                                        Tier::device, sizes[i]));
      expected_.push_back(
          values(static_cast<std::size_t>(states_.back().bytes()), static_cast<unsigned>(i)));
      const Stream stream = Stream::make(memory.device());
      copy_bytes(stream, states_[i].data(), memory.device(), expected_[i].data(), kCpu,
                 states_[i].bytes());
      stream.synchronize();
    }
  }

  std::vector<StateBuffer*> all() {
    std::vector<StateBuffer*> pointers;
    for (StateBuffer& state : states_) pointers.push_back(&state);
    return pointers;
  }
  void expect_whole_on(Tier tier) const {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      EXPECT_TRUE(states_[i].bytes() == 0 || states_[i].tier() == tier) << i;
      EXPECT_EQ(contents(states_[i]), expected_[i]) << i;
    }
  }
  void expect_whole() const {
    for (std::size_t i = 0; i < states_.size(); ++i) EXPECT_EQ(contents(states_[i]), expected_[i]);
  }
  const StateBuffer& operator[](std::size_t i) const { return states_[i]; }

 private:
  std::vector<StateBuffer> states_;
  std::vector<Bytes> expected_;
};

class StateMovesOn : public testing::TestWithParam<std::tuple<Device, bool>> {
 protected:
  void SetUp() override { FakeAccelerator::install(); }
  Device device() const { return std::get<0>(GetParam()); }
  bool pins() const { return std::get<1>(GetParam()); }
};

TEST_P(StateMovesOn, TakeEverythingWithThemAndLeaveNothing) {
  const RandomStalls stalls({.seed = 3, .one_in = 3, .at_most = std::chrono::microseconds(200)});
  FakeAccelerator& fake = FakeAccelerator::install();
  StateMemory memory(device());
  MovedStates states(memory, {1000, 0, 300'000, 256, 5'000'000, 20 << 20});
  const std::int64_t total = memory.ledger().total(Tier::device);
  StateMoves moves(memory);
  for (int round = 0; round < 2; ++round) {
    const std::int64_t trims = fake.trims();
    moves.start(states.all(), Tier::host, {.pin = pins()});
    EXPECT_TRUE(moves.under_way());
    moves.finish();
    EXPECT_FALSE(moves.under_way());
    states.expect_whole_on(Tier::host);
    EXPECT_EQ(states[4].pinned(), pins());
    EXPECT_EQ(memory.ledger().total(Tier::device), 0);
    EXPECT_EQ(memory.ledger().total(Tier::host), total);
    EXPECT_EQ(fake.trims(), trims + (device() == kMovesFrom ? 1 : 0)) << "others can have it";
    moves.start(states.all(), Tier::device, {});
    moves.finish();
    states.expect_whole_on(Tier::device);
    EXPECT_EQ(memory.ledger().total(Tier::device), total);
    EXPECT_EQ(memory.ledger().total(Tier::host), 0);
    EXPECT_EQ(fake.pinned_bytes(), 0);
  }
}

TEST_P(StateMovesOn, WhatIsThereAlreadyStays) {
  StateMemory memory(device());
  MovedStates states(memory, {5000, 6000});
  StateMoves moves(memory);
  moves.start({states.all()[1]}, Tier::host, {.pin = pins()});
  moves.finish();
  const void* const there = states[1].data();
  moves.start(states.all(), Tier::host, {.pin = pins()});
  moves.finish();
  EXPECT_EQ(states[1].data(), there);
  states.expect_whole_on(Tier::host);
}

TEST_P(StateMovesOn, TheDestructorWaits) {
  StateMemory memory(device());
  MovedStates states(memory, {3'000'000, 3'000'000});
  {
    StateMoves moves(memory);
    moves.start(states.all(), Tier::host, {.pin = pins()});
  }
  states.expect_whole_on(Tier::host);
}

// Memory that a move takes may be a block whose last user has work pending on the stream that he
// gave it back on.
TEST(StateMoves, ComeAfterWhatTheDeviceHasBeenGiven) {
  FakeAccelerator& fake = FakeAccelerator::install();
  StateMemory memory(kMovesFrom);
  MovedStates states(memory, {1000, 300'000});
  StateMoves moves(memory);
  for (const Tier to : {Tier::host, Tier::device}) {
    std::atomic<bool> done = false;
    fake.launch(Stream::current(kMovesFrom), [&done] {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      done = true;
    });
    moves.start(states.all(), to, {});
    moves.finish();
    EXPECT_TRUE(done);
    states.expect_whole_on(to);
    Stream::current(kMovesFrom).synchronize();
  }
}

// Who moves states gives up other things with them, which he must keep where nothing moves.
TEST(StateMoves, SayWhetherTheyAreAccepted) {
  const test::TemporaryFolder root;
  std::filesystem::create_directories(root.path() / "proc");
  std::ofstream(root.path() / "proc/meminfo") << "MemTotal: 204800 kB\nMemAvailable: 51200 kB\n";
  StateMemory memory(kCpu, {.limits = root.path()});
  MovedStates states(memory, {30 << 20, 30 << 20});
  StateMoves moves(memory);
  int accepted = 0;
  const StateMoves::Options options{.accepted = [&] { ++accepted; }};
  EXPECT_THROW(moves.start(states.all(), Tier::host, options), StorageError);
  EXPECT_EQ(accepted, 0);
  moves.start({states.all()[0]}, Tier::host, options);
  EXPECT_EQ(accepted, 1);
  moves.finish();
}

INSTANTIATE_TEST_SUITE_P(Devices, StateMovesOn,
                         testing::Combine(testing::Values(kCpu, kMovesFrom), testing::Bool()));

TEST(StateMoves, ADeviceWithoutRoomKeepsWhatIsOnTheHost) {
  FakeAccelerator::install();
  StateMemory memory(kMovesFrom);
  MovedStates states(memory, {10 << 20, 20 << 20, 30 << 20});
  StateMoves moves(memory);
  moves.start(states.all(), Tier::host, {});
  moves.finish();
  {
    // Somebody else has the device now, but for some of it.
    const StateBuffer taken =
        memory.allocate(Category::buffers, Tier::device, FakeAccelerator::kCapacity - (40 << 20));
    moves.start(states.all(), Tier::device, {});
    try {
      moves.finish();
      FAIL() << "there was no room";
    } catch (const StorageError& error) {
      EXPECT_NE(std::string(error.what()).find("were asked for"), std::string::npos)
          << error.what();
    }
    states.expect_whole();
    EXPECT_EQ(states[2].tier(), Tier::host);
  }
  moves.start(states.all(), Tier::device, {});
  moves.finish();
  states.expect_whole_on(Tier::device);
}

TEST(StateMoves, AHostWithoutRoomRefusesBeforeAnythingMoves) {
  const test::TemporaryFolder root;
  std::filesystem::create_directories(root.path() / "proc");
  std::ofstream(root.path() / "proc/meminfo") << "MemTotal: 4096 kB\nMemAvailable: 1024 kB\n";
  StateMemory memory(kCpu, {.limits = root.path()});
  MovedStates states(memory, {700 << 10, 700 << 10});
  StateMoves moves(memory);
  EXPECT_THROW(moves.start(states.all(), Tier::host, {}), StorageError);
  EXPECT_FALSE(moves.under_way());
  states.expect_whole_on(Tier::device);
}

}  // namespace
}  // namespace zeroshard
