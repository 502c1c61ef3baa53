// Named times per step.
#include <thread>

#include <gtest/gtest.h>

#include "zeroshard/monitor/wall_clock.h"

namespace zeroshard {
namespace {

using namespace std::chrono_literals;

TEST(WallClock, GivesMeansPerStepInOrderOfFirstUse) {
  WallClock clock;
  for (int step = 0; step < 4; ++step) {
    clock.add("forward", 10ms);
    clock.add("forward", 20ms);  // a second micro-step
    clock.add("backward", 50ms);
    if (step == 0) clock.add("save", 8ms);
    clock.end_step();
  }
  EXPECT_EQ(wall_clock_line(clock.take()),
            "forward 30.00 ms, backward 50.00 ms, save 2.00 ms per step, mean of 4");
}

TEST(WallClock, StartsAnewAfterEachReading) {
  WallClock clock;
  clock.add("forward", 10ms);
  clock.end_step();
  clock.take();
  clock.add("step", 5ms);
  clock.end_step();
  EXPECT_EQ(wall_clock_line(clock.take()), "forward 0.00 ms, step 5.00 ms per step");
}

TEST(WallClock, WithoutAStepKeepsTheTimeForLater) {
  WallClock clock;
  EXPECT_EQ(wall_clock_line(clock.take()), "no time was measured");
  clock.add("forward", 10ms);
  EXPECT_TRUE(clock.take().times.empty());
  clock.end_step();
  const WallClockReading reading = clock.take();
  ASSERT_EQ(reading.times.size(), 1U);
  EXPECT_EQ(reading.times[0].ms_per_step, 10.0);
  EXPECT_EQ(reading.steps, 1);
}

TEST(WallClockScope, AddsItsLifetime) {
  WallClock clock;
  {
    const WallClock::Scope scope(&clock, "forward");
    std::this_thread::sleep_for(3ms);
  }
  clock.end_step();
  const double ms = clock.take().times.at(0).ms_per_step;
  EXPECT_GE(ms, 3.0);
  EXPECT_LT(ms, 30000.0);
}

TEST(WallClockScope, WithoutAClockDoesNothing) { const WallClock::Scope scope(nullptr, "forward"); }

}  // namespace
}  // namespace zeroshard
