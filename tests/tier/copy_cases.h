// What copies between tiers promise on every device, written once: a test program includes this
// and instantiates TierCopies with the devices it has.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/device/device_case.h"
#include "zeroshard/device/stalls.h"
#include "zeroshard/tier/copy_stream.h"

namespace zeroshard {

// Host memory that is pinned; or not, with a ring of this many slots; or not, without a ring.
struct Route {
  bool pinned = true;
  int slots = 0;
  std::int64_t slot_bytes = 0;
};

inline void PrintTo(const Route& route, std::ostream* out) {
  *out << (route.pinned ? "pinned" : "unpinned") << " ring " << route.slots;
}

inline std::vector<Route> all_routes() {
  return {{true, 0, 0}, {false, 1, 256}, {false, 2, 4096}, {false, 3, 768}, {false, 0, 0}};
}

class TierCopies : public testing::TestWithParam<std::tuple<DeviceCase, Route>> {
 protected:
  void SetUp() override {
    of().load();
    if (IsSkipped()) return;
    memory_ = std::make_unique<StateMemory>(device(), HostMemoryOptions{.pin = route().pinned});
    memory_->reserve_host(1 << 20);
    if (route().slots > 0) {
      ring_ = std::make_unique<StagingRing>(*memory_,
                                            size_staging_ring(route().slots, route().slot_bytes));
    }
  }

  const DeviceCase& of() const { return std::get<0>(GetParam()); }
  const Route& route() const { return std::get<1>(GetParam()); }
  Device device() const { return of().device; }
  void occupy(const Stream& stream) const { of().occupy(stream); }

  StateBuffer host_state(std::int64_t bytes, unsigned char value) {
    StateBuffer state = memory_->allocate(Category::master, Tier::host, bytes);
    std::fill_n(static_cast<unsigned char*>(state.data()), state.bytes(), value);
    return state;
  }
  StateBuffer device_state(std::int64_t bytes, unsigned char value) {
    StateBuffer state = memory_->allocate(Category::parameters, Tier::device, bytes);
    write(state, Bytes(static_cast<std::size_t>(state.bytes()), value));
    return state;
  }
  void write(const StateBuffer& state, const Bytes& bytes) const {
    const Stream stream = Stream::make(device());
    copy_bytes(stream, state.data(), device(), bytes.data(), kCpu, state.bytes());
    stream.synchronize();
  }
  static Bytes contents(const StateBuffer& state) {
    Bytes bytes(static_cast<std::size_t>(state.bytes()));
    const Stream stream = Stream::make(state.device());
    copy_bytes(stream, bytes.data(), kCpu, state.data(), state.device(), state.bytes());
    stream.synchronize();
    return bytes;
  }
  static std::vector<TierCopy> between(const StateBuffer& to, const StateBuffer& from) {
    return {{to.data(), from.data(), from.bytes(), to.pinned() || from.pinned()}};
  }

  std::unique_ptr<StateMemory> memory_;
  std::unique_ptr<StagingRing> ring_;
};

TEST_P(TierCopies, BytesArriveWhateverTheirNumber) {
  CopyStream copies(device(), ring_.get());
  for (const std::int64_t bytes : {0, 1, 256, 1000, 4096, 100'000}) {
    const StateBuffer on_device = device_state(bytes, 0), there = host_state(bytes, 1);
    const StateBuffer back = host_state(bytes, 2);
    Bytes expected(static_cast<std::size_t>(there.bytes()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = static_cast<unsigned char>(i * 7 + i / 251);
    }
    if (bytes > 0) std::memcpy(there.data(), expected.data(), expected.size());
    const Event up = copies.up(between(on_device, there));
    const Event down = copies.down(between(back, on_device), up);
    down.synchronize();
    EXPECT_TRUE(up.done());
    EXPECT_EQ(contents(back), expected);
  }
}

TEST_P(TierCopies, ComeAfterTheirProducerAndLetTheCallerGoOn) {
  CopyStream copies(device(), ring_.get());
  const StateBuffer old = device_state(20'000, 1), next = device_state(20'000, 2);
  const StateBuffer there = host_state(20'000, 0);
  const Stream producer = Stream::make(device());
  occupy(producer);
  copy_bytes(producer, old.data(), device(), next.data(), device(), old.bytes());
  const Event end = copies.down(between(there, old), producer);
  EXPECT_FALSE(end.done()) << "the caller did not wait";
  end.synchronize();
  EXPECT_EQ(contents(there), Bytes(static_cast<std::size_t>(there.bytes()), 2));
}

TEST_P(TierCopies, AStreamWaitsForTheirEnd) {
  CopyStream copies(device(), ring_.get());
  const StateBuffer old = device_state(20'000, 1), seen = device_state(20'000, 0);
  const StateBuffer there = host_state(20'000, 2);
  const Stream before = Stream::make(device()), consumer = Stream::make(device());
  occupy(before);
  consumer.wait(copies.up(between(old, there), before));
  copy_bytes(consumer, seen.data(), device(), old.data(), device(), old.bytes());
  consumer.synchronize();
  EXPECT_EQ(contents(seen), Bytes(static_cast<std::size_t>(seen.bytes()), 2));
}

// New values are made by a side stream of the CPU, as by an optimizer there.
TEST_P(TierCopies, ComeAfterAStreamOfTheHost) {
  CopyStream copies(device(), ring_.get());
  const StateBuffer to = device_state(20'000, 1), there = host_state(20'000, 2);
  const Stream update = Stream::make(kCpu);
  update.run([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::memset(there.data(), 3, static_cast<std::size_t>(there.bytes()));
  });
  const Event end = copies.up(between(to, there), update);
  EXPECT_FALSE(end.done());
  const Stream consumer = Stream::make(device());
  const StateBuffer seen = device_state(20'000, 0);
  consumer.wait(end);
  copy_bytes(consumer, seen.data(), device(), to.data(), device(), to.bytes());
  consumer.synchronize();
  EXPECT_EQ(contents(seen), Bytes(static_cast<std::size_t>(seen.bytes()), 3));
}

TEST_P(TierCopies, AListIsOneOperation) {
  CopyStream copies(device(), ring_.get());
  std::vector<StateBuffer> from, to;
  std::vector<TierCopy> list;
  for (unsigned char i = 0; i < 5; ++i) {
    from.push_back(device_state(300 * i, i));
    to.push_back(host_state(300 * i, 99));
    list.push_back({to[i].data(), from[i].data(), from[i].bytes(), to[i].pinned()});
  }
  copies.down(list, Stream::current(device())).synchronize();
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(contents(to[i]), contents(from[i]));
}

TEST_P(TierCopies, TheDestructorWaits) {
  const StateBuffer from = device_state(20'000, 5), there = host_state(20'000, 0);
  Event end;
  {
    CopyStream copies(device(), ring_.get());
    const Stream producer = Stream::make(device());
    occupy(producer);
    end = copies.down(between(there, from), producer);
  }
  EXPECT_TRUE(end.done());
  EXPECT_EQ(contents(there), Bytes(static_cast<std::size_t>(there.bytes()), 5));
}

TEST_P(TierCopies, AnErrorBeforeTheCopyIsThrownByWhoeverWaits) {
  CopyStream copies(device(), ring_.get());
  const StateBuffer to = device_state(5000, 1), there = host_state(5000, 2);
  const Stream update = Stream::make(kCpu);
  update.run([] { throw std::runtime_error("the update failed"); });
  const Event end = copies.up(between(to, there), update);
  EXPECT_THROW(end.synchronize(), std::runtime_error);
  EXPECT_THROW(copies.synchronize(), std::runtime_error);
  EXPECT_THROW(update.synchronize(), std::runtime_error);
  copies.up(between(to, there)).synchronize();
  EXPECT_EQ(contents(to), Bytes(static_cast<std::size_t>(to.bytes()), 2));
}

// Copies up and down between a few states in random order, each behind the ends of those before it
// that used the same states, give what they give one after another. Stalls make races show.
TEST_P(TierCopies, RandomOrdersEqualASequentialRun) {
  const RandomStalls stalls({.seed = 5, .one_in = 3, .at_most = std::chrono::microseconds(100)});
  std::mt19937 random(9);
  CopyStream down(device(), ring_.get()), up(device(), ring_.get());
  constexpr std::size_t kStates = 3;
  for (int round = 0; round < 4; ++round) {
    std::vector<StateBuffer> host, on_device;
    std::vector<Bytes> host_values, device_values;
    for (std::size_t i = 0; i < kStates; ++i) {
      const auto value = static_cast<unsigned char>(10 * round + static_cast<int>(i));
      host.push_back(host_state(5000, value));
      on_device.push_back(device_state(5000, static_cast<unsigned char>(value + 100)));
      host_values.push_back(contents(host[i]));
      device_values.push_back(contents(on_device[i]));
    }
    // One after another through one event: who comes next waits for the one before.
    Event last;
    for (int step = 0; step < 40; ++step) {
      const std::size_t at_host = random() % kStates, at_device = random() % kStates;
      if (random() % 2 == 0) {
        last = down.down(between(host[at_host], on_device[at_device]), last);
        host_values[at_host] = device_values[at_device];
      } else {
        last = up.up(between(on_device[at_device], host[at_host]), last);
        device_values[at_device] = host_values[at_host];
      }
    }
    last.synchronize();
    for (std::size_t i = 0; i < kStates; ++i) {
      EXPECT_EQ(contents(host[i]), host_values[i]);
      EXPECT_EQ(contents(on_device[i]), device_values[i]);
    }
  }
}

}  // namespace zeroshard
