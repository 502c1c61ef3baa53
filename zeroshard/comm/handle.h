// The caller's end of an operation that may still be running.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "zeroshard/base/unwinding.h"

namespace zeroshard {

// The backend's end: finished once, with or without an error.
class Completion {
 public:
  // What makes the operation end soon, with an error if need be. Set before anybody has a handle.
  void set_abandon(std::function<void()> abandon) { abandon_ = std::move(abandon); }
  // Blocks until nothing touches the operation's memory any more.
  void abandon() const noexcept;

  void finish(std::exception_ptr error = nullptr);
  // Calls `act` once: when the operation ends, on the thread that ends it and before anybody who
  // waits hears of it; at once where it has ended. It is short, throws nothing and asks nothing of
  // this operation. There is one at most.
  void when_done(std::function<void()> act) const;
  bool done() const;
  // Blocks until finished or until the time is over; whether it is finished.
  bool wait_for(std::chrono::milliseconds time) const;
  // Blocks until finished, then throws the error if there is one. May be called again.
  void wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable finished_;
  bool done_ = false;
  std::exception_ptr error_;
  mutable std::function<void()> when_done_;  // guarded by mutex_
  std::function<void()> abandon_;
};

// A value; copies speak of the same operation. An empty one is done. Where an exception takes it
// away, its operation's memory is about to go as well: then the operation is given up.
class Handle {
 public:
  Handle() = default;
  ~Handle() {
    if (!done() && unwinding_) completion_->abandon();
  }
  Handle(const Handle&) = default;
  Handle(Handle&&) = default;
  Handle& operator=(const Handle&) = default;
  Handle& operator=(Handle&&) = default;
  explicit Handle(std::shared_ptr<const Completion> completion)
      : completion_(std::move(completion)) {}

  bool done() const { return completion_ == nullptr || completion_->done(); }
  bool wait_for(std::chrono::milliseconds time) const {
    return completion_ == nullptr || completion_->wait_for(time);
  }
  void wait() const {
    if (completion_ != nullptr) completion_->wait();
  }
  // See Completion.
  void when_done(std::function<void()> act) const {
    if (completion_ == nullptr) return act();
    completion_->when_done(std::move(act));
  }

 private:
  std::shared_ptr<const Completion> completion_;
  Unwinding unwinding_;
};

}  // namespace zeroshard
