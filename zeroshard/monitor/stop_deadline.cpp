#include "zeroshard/monitor/stop_deadline.h"

#include <algorithm>
#include <utility>

namespace zeroshard {
namespace {

// A handler cannot wake a thread by a condition variable, so this one looks by itself.
constexpr std::chrono::milliseconds kLookEvery{100};

}  // namespace

StopDeadline::StopDeadline(const Interrupts& interrupts, std::chrono::milliseconds patience,
                           Abandon abandon)
    : interrupts_(interrupts), patience_(patience), abandon_(std::move(abandon)) {
  thread_ = std::thread([this] { watch(); });
}

StopDeadline::~StopDeadline() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StopDeadline::pause(int more) {
  const std::lock_guard lock(mutex_);
  pauses_ += more;
  counts_from_ = Clock::now();
}

bool StopDeadline::is_over() const {
  const auto asked_for = interrupts_.stop_asked_for();
  if (pauses_ > 0 || !asked_for) return false;
  const std::chrono::nanoseconds since_pause = Clock::now() - counts_from_;
  return std::min(*asked_for, since_pause) >= patience_;
}

void StopDeadline::watch() {
  {
    std::unique_lock lock(mutex_);
    while (!is_over()) {
      if (changed_.wait_for(lock, std::min(kLookEvery, patience_), [&] { return ending_; })) return;
    }
  }
  abandon_(interrupts_.stop_requested());
}

}  // namespace zeroshard
