// The caller's end of an operation that may still be running.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

namespace zeroshard {

// The backend's end: finished once, with or without an error.
class Completion {
 public:
  void finish(std::exception_ptr error = nullptr);
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
};

// A value; copies speak of the same operation. An empty one is done.
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<const Completion> completion)
      : completion_(std::move(completion)) {}

  bool done() const { return completion_ == nullptr || completion_->done(); }
  bool wait_for(std::chrono::milliseconds time) const {
    return completion_ == nullptr || completion_->wait_for(time);
  }
  void wait() const {
    if (completion_ != nullptr) completion_->wait();
  }

 private:
  std::shared_ptr<const Completion> completion_;
};

}  // namespace zeroshard
