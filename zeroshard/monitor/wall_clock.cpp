#include "zeroshard/monitor/wall_clock.h"

#include <algorithm>

#include <fmt/core.h>

namespace zeroshard {

std::string wall_clock_line(const WallClockReading& reading) {
  std::string line;
  for (const WallClockTime& time : reading.times) {
    line += fmt::format("{}{} {:.2f} ms", line.empty() ? "" : ", ", time.name, time.ms_per_step);
  }
  if (line.empty()) return "no time was measured";
  line += " per step";
  if (reading.steps > 1) line += fmt::format(", mean of {}", reading.steps);
  return line;
}

void WallClock::add(std::string_view name, Clock::duration time) {
  const auto found = std::find_if(timers_.begin(), timers_.end(),
                                  [name](const Timer& timer) { return timer.name == name; });
  if (found != timers_.end()) {
    found->total += time;
  } else {
    timers_.push_back({std::string(name), time});
  }
}

WallClockReading WallClock::take() {
  WallClockReading reading{.steps = steps_};
  if (steps_ == 0) return reading;
  for (const Timer& timer : timers_) {
    const double ms = std::chrono::duration<double, std::milli>(timer.total).count();
    reading.times.push_back({timer.name, ms / static_cast<double>(steps_)});
  }
  for (Timer& timer : timers_) timer.total = {};
  steps_ = 0;
  return reading;
}

WallClock::Scope::~Scope() {
  if (clock_ == nullptr) return;
  try {
    clock_->add(name_, Clock::now() - begin_);
  } catch (...) {  // no memory for a new name: the time is lost, the step is not
  }
}

}  // namespace zeroshard
