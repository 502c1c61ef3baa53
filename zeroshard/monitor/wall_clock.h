// Where the time of a step goes, for `wall_clock_breakdown`.
//
//   { WallClock::Scope scope(clock, "forward"); loss = model->forward(batch); }  // clock: may be
//   null clock->end_step(); log_info("{}", wall_clock_line(clock->take()));
//
// It reads the host's clock: whoever times work of a device waits for the device first. For one
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

struct WallClockTime {
  std::string name;
  double ms_per_step = 0;
};

struct WallClockReading {
  std::vector<WallClockTime> times;  // in the order in which the names first came up
  std::int64_t steps = 0;            // the mean is over these
};

// "forward 12.31 ms, backward 25.02 ms, step 3.10 ms per step, mean of 10"
std::string wall_clock_line(const WallClockReading& reading);

class WallClock {
 public:
  using Clock = std::chrono::steady_clock;
  class Scope;

  void add(std::string_view name, Clock::duration time);
  void end_step() { ++steps_; }

  // The means since the last call, and starts anew. Names stay, so that columns do not move. Time
  // of a step that has not ended counts for the next reading where none has ended at all.
  WallClockReading take();

 private:
  struct Timer {
    std::string name;
    Clock::duration total{};
  };
  std::vector<Timer> timers_;
  std::int64_t steps_ = 0;
};

// Adds its lifetime to `name`, which must outlive it. Without a clock it costs one branch.
class WallClock::Scope {
 public:
  Scope(WallClock* clock, std::string_view name) noexcept : clock_(clock) {
    if (clock == nullptr) return;
    name_ = name;
    begin_ = Clock::now();
  }
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  WallClock* clock_;
  std::string_view name_;
  Clock::time_point begin_;
};

}  // namespace zeroshard
