#include "zeroshard/comm/handle.h"

#include <utility>

#include "zeroshard/base/check.h"

namespace zeroshard {

void Completion::finish(std::exception_ptr error) { finish({}, std::move(error)); }

void Completion::finish_behind(const Event& last) { finish(last, nullptr); }

void Completion::finish(const Event& last, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    ZS_CHECK(!issued_, "an operation was finished twice");
    issued_ = true;
    last_ = last;
    if (error) {
      failure_ = std::make_shared<StreamFailure>();
      failure_->error = std::move(error);
    }
    if (when_done_) std::exchange(when_done_, nullptr)();
  }
  changed_.notify_all();
}

void Completion::when_done(std::function<void()> act) const {
  {
    const std::lock_guard lock(mutex_);
    if (!issued_) {
      ZS_CHECK(!when_done_, "an operation has two that want to know of its end");
      when_done_ = std::move(act);
      return;
    }
  }
  act();
}

// Where all is issued the communicator is left alone: only the last copies are still to come.
void Completion::abandon() const noexcept {
  if (!issued()) {
    if (!abandon_) return;
    try {
      abandon_();
    } catch (...) {  // then the operation ends by its timeout
    }
    wait_until_issued();
  }
  last_.wait_until_over();
}

bool Completion::issued_within(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return issued_; });
}

bool Completion::issued() const {
  const std::lock_guard lock(mutex_);
  return issued_;
}

void Completion::wait_until_issued() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return issued_; });
}

bool Completion::done() const { return issued() && last_.done(); }

void Completion::block() const {
  wait_until_issued();
  if (last_.point() != nullptr) last_.point()->block();
}

std::shared_ptr<StreamFailure> Completion::failure() const {
  if (failure_ != nullptr || last_.point() == nullptr) return failure_;
  return last_.point()->failure();
}

PointPtr Completion::point_on_device() const {
  wait_until_issued();
  if (failure_ != nullptr) failure_->raise();
  return last_.point();
}

}  // namespace zeroshard
