// The text of the progress line, and the smoothed time of a step.
#include <cmath>

#include <gtest/gtest.h>

#include "zeroshard/monitor/progress_line.h"

namespace zeroshard {
namespace {

using namespace std::chrono_literals;

ProgressState full_state() {
  return {.step = 120,
          .total = 1000,
          .loss = 3.14159265,
          .perplexity = 23.1406926,
          .learning_rate = 0.00025,
          .tokens_per_second = 12345,
          .memory_bytes = std::int64_t{3} << 30,
          .left = 125s};
}

TEST(ProgressLine, HasEverythingWhereThereIsRoom) {
  EXPECT_EQ(
      progress_line(full_state(), 200),
      "[====>                                 ] 120/1000  loss 3.1416  ppl 23.14  lr 0.00025  "
      "12.3 K tokens/s  3.00 GiB  2 min 05 s left");
}

TEST(ProgressLine, ShrinksTheBarThenDropsFields) {
  const ProgressState state = full_state();
  EXPECT_EQ(progress_line(state, 100),
            "[=>       ] 120/1000  loss 3.1416  ppl 23.14  lr 0.00025  12.3 K tokens/s  3.00 GiB  "
            "2 min 05 s left");
  EXPECT_EQ(progress_line(state, 79),
            "120/1000  loss 3.1416  ppl 23.14  lr 0.00025  12.3 K tokens/s  2 min 05 s left");
  EXPECT_EQ(progress_line(state, 70),
            "[>     ] 120/1000  loss 3.1416  ppl 23.14  lr 0.00025  2 min 05 s left");
  EXPECT_EQ(progress_line(state, 55), "120/1000  loss 3.1416  ppl 23.14  2 min 05 s left");
  EXPECT_EQ(progress_line(state, 40), "120/1000  loss 3.1416  2 min 05 s left");
  EXPECT_EQ(progress_line(state, 30), "[>     ] 120/1000  loss 3.1416");
  EXPECT_EQ(progress_line(state, 20), "[=>       ] 120/1000");
  EXPECT_EQ(progress_line(state, 8), "120/1000");
  EXPECT_EQ(progress_line(state, 3), "120");
  EXPECT_EQ(progress_line(state, 0), "");
}

TEST(ProgressLine, SkippedStepsAreTheLastToGo) {
  ProgressState state = full_state();
  state.skipped = 3;
  EXPECT_EQ(progress_text(state),
            "step 120/1000, loss 3.1416, perplexity 23.14, lr 0.00025, 3 skipped, 12.3 K tokens/s, "
            "3.00 GiB, 2 min 05 s left");
  EXPECT_EQ(progress_line(state, 20), "120/1000  3 skipped");
}

TEST(ProgressLine, FitsEveryWidth) {
  ProgressState state = full_state();
  for (const std::int64_t step : {0, 1, 500, 999, 1000, 1200}) {
    state.step = step;
    for (std::size_t width = 0; width < 150; ++width) {
      const std::string line = progress_line(state, width);
      ASSERT_LE(line.size(), width);
      if (width >= 9) {
        ASSERT_NE(line.find(std::to_string(step) + "/1000"), std::string::npos) << line;
      }
    }
  }
}

TEST(ProgressLine, TheBarIsFullAtTheEndAndEmptyAtTheStart) {
  EXPECT_EQ(progress_line({.step = 0, .total = 4}, 14), "[>       ] 0/4");
  EXPECT_EQ(progress_line({.step = 2, .total = 4}, 14), "[====>   ] 2/4");
  EXPECT_EQ(progress_line({.step = 4, .total = 4}, 14), "[========] 4/4");
  EXPECT_EQ(progress_line({.step = 9, .total = 4}, 14), "[========] 9/4");
}

TEST(ProgressLine, WithoutATotalThereIsNoBar) {
  EXPECT_EQ(progress_line({.step = 7, .loss = 0.5}, 100), "step 7  loss 0.5");
}

TEST(ProgressLine, OddNumbersAreShown) {
  EXPECT_EQ(progress_line({.step = 1, .loss = std::nan("")}, 100), "step 1  loss nan");
  EXPECT_EQ(progress_line({.step = 1, .tokens_per_second = INFINITY}, 100), "step 1");
}

TEST(ProgressLine, APerplexityBeyondNumbersIsLeftOut) {
  EXPECT_EQ(progress_line({.step = 1, .perplexity = INFINITY}, 100), "step 1");
  EXPECT_EQ(progress_line({.step = 1, .perplexity = 1234567.0}, 100), "step 1  ppl 1.235e+06");
}

TEST(ProgressText, IsForLogs) {
  EXPECT_EQ(progress_text(full_state()),
            "step 120/1000, loss 3.1416, perplexity 23.14, lr 0.00025, 12.3 K tokens/s, 3.00 GiB, "
            "2 min 05 s left");
  EXPECT_EQ(progress_text({.step = 5}), "step 5");
}

TEST(StepTime, KnowsNothingBeforeTheFirstStep) {
  StepTime time;
  EXPECT_FALSE(time.seconds().has_value());
  time.note(0, {});
  EXPECT_FALSE(time.seconds().has_value());
  EXPECT_FALSE(time.left(10).has_value());
}

TEST(StepTime, IsExactForEqualSteps) {
  StepTime time;
  StepTime::Clock::time_point now{};
  for (int step = 0; step <= 20; ++step, now += 250ms) time.note(step, now);
  EXPECT_NEAR(*time.seconds(), 0.25, 1e-12);
  EXPECT_EQ(time.left(30), 2500ms);
  EXPECT_EQ(time.left(5), 0ms) << "more steps than planned";
  EXPECT_FALSE(time.left(0).has_value()) << "no plan";
}

TEST(StepTime, FollowsSlowlyAndForgets) {
  StepTime time;
  StepTime::Clock::time_point now{};
  time.note(0, now);
  time.note(1, now += 10s);  // the first step warms up
  for (int step = 2; step <= 11; ++step) time.note(step, now += 1s);
  EXPECT_GT(*time.seconds(), 1.2);
  for (int step = 12; step <= 80; ++step) time.note(step, now += 1s);
  EXPECT_NEAR(*time.seconds(), 1.0, 0.01);
  time.note(81, now += 20s);  // one checkpoint does not turn the estimate over
  EXPECT_LT(*time.seconds(), 3.0);
}

TEST(StepTime, WhatIsPassedOverIsNoStepsTime) {
  StepTime time;
  StepTime::Clock::time_point now{};
  time.pass_over(now);  // before anything: nothing
  for (int step = 0; step <= 20; ++step, now += 100s) {
    time.note(step, now);
    time.pass_over(now += 300s);  // an evaluation after each step
  }
  EXPECT_NEAR(*time.seconds(), 100, 1e-9);
  EXPECT_EQ(time.left(22), 200s);
}

TEST(StepTime, SeveralStepsAtOnceCountAsManyAlone) {
  StepTime alone, together;
  StepTime::Clock::time_point now{};
  for (StepTime* time : {&alone, &together}) {
    time->note(0, now);
    time->note(1, now + 5s);
  }
  for (int i = 1; i <= 4; ++i) alone.note(1 + i, now + 5s + i * 1s);
  together.note(5, now + 9s);
  EXPECT_NEAR(*alone.seconds(), *together.seconds(), 1e-12);
  together.note(5, now + 100s);  // no step, no time
  EXPECT_NEAR(*alone.seconds(), *together.seconds(), 1e-12);
}

}  // namespace
}  // namespace zeroshard
