#include "zeroshard/comm/handle.h"

#include <utility>

#include "zeroshard/base/check.h"

namespace zeroshard {

void Completion::finish(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    ZS_CHECK(!done_, "an operation was finished twice");
    done_ = true;
    error_ = std::move(error);
    if (when_done_) std::exchange(when_done_, nullptr)();
  }
  finished_.notify_all();
}

void Completion::when_done(std::function<void()> act) const {
  {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      ZS_CHECK(!when_done_, "an operation has two that want to know of its end");
      when_done_ = std::move(act);
      return;
    }
  }
  act();
}

void Completion::abandon() const noexcept {
  if (!abandon_) return;
  abandon_();
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return done_; });
}

bool Completion::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool Completion::wait_for(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return finished_.wait_for(lock, time, [&] { return done_; });
}

void Completion::wait() const {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return done_; });
  if (error_) std::rethrow_exception(error_);
}

}  // namespace zeroshard
