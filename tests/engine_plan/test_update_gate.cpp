// An update waits for its unit to be read, and for no other.

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/engine/update_gate.h"

namespace zeroshard {
namespace {

using std::chrono::milliseconds;

TEST(UpdateGate, IsOpenUntilItIsClosed) {
  UpdateGate gate;
  gate.wait(7);
  gate.wait_for_all();
  EXPECT_FALSE(gate.is_closed());
  EXPECT_EQ(gate.waited().count(), 0);
  gate.open_all();
}

TEST(UpdateGate, UpdatesFollowTheReaderUnitByUnit) {
  constexpr std::size_t kUnits = 20;
  UpdateGate gate;
  std::set<std::size_t> units;
  for (std::size_t unit = 0; unit < kUnits; ++unit) units.insert(unit);
  gate.close(units);
  gate.wait(kUnits);  // which is not to be read
  EXPECT_TRUE(gate.is_closed());
  EXPECT_THROW(gate.close({1}), InvariantError);
  std::atomic<std::size_t> read = 0;
  std::thread reader([&] {
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
      std::this_thread::sleep_for(milliseconds(1));
      ++read;
      gate.open(unit);
    }
  });
  for (std::size_t unit = 0; unit < kUnits; ++unit) {
    gate.wait(unit);
    EXPECT_GT(read, unit) << "an update has overtaken the reader";
  }
  gate.wait_for_all();
  reader.join();
  EXPECT_FALSE(gate.is_closed());
  EXPECT_GT(gate.waited(), milliseconds(5));
  gate.open(3);
  gate.close({0, 1});
  EXPECT_EQ(gate.waited().count(), 0);
  gate.open_all();
}

// Whoever reads may fail in the middle.
TEST(UpdateGate, OpensForAllAtOnce) {
  UpdateGate gate;
  gate.close({0, 1, 2});
  std::thread reader([&] {
    std::this_thread::sleep_for(milliseconds(5));
    gate.open_all();
  });
  gate.wait(2);
  gate.wait_for_all();
  reader.join();
}

}  // namespace
}  // namespace zeroshard
