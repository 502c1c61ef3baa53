#include "zeroshard/engine/update_gate.h"

#include "zeroshard/base/check.h"

namespace zeroshard {

void UpdateGate::close(const std::set<std::size_t>& units) {
  const std::lock_guard lock(mutex_);
  ZS_CHECK(shut_.empty(), "somebody reads the states already");
  shut_ = units;
  waited_ = {};
  closed_ = !shut_.empty();
}

void UpdateGate::close_frozen() {
  const std::lock_guard lock(mutex_);
  frozen_are_read_ = true;
}

void UpdateGate::open(std::size_t unit) {
  {
    const std::lock_guard lock(mutex_);
    shut_.erase(unit);
    closed_ = !shut_.empty();
  }
  opened_.notify_all();
}

void UpdateGate::open_all() noexcept {
  {
    const std::lock_guard lock(mutex_);
    shut_.clear();
    closed_ = frozen_are_read_ = false;
  }
  opened_.notify_all();
}

template <typename IsOpen>
void UpdateGate::wait_until(const IsOpen& is_open) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  opened_.wait(lock, is_open);
  waited_ += std::chrono::steady_clock::now() - start;
}

void UpdateGate::wait(std::size_t unit) {
  if (closed_) wait_until([&] { return !shut_.contains(unit); });
}

void UpdateGate::wait_for_all() {
  if (closed_) wait_until([&] { return shut_.empty(); });
}

void UpdateGate::wait_for_readers() {
  wait_until([&] { return shut_.empty() && !frozen_are_read_; });
}

std::chrono::nanoseconds UpdateGate::waited() const {
  const std::lock_guard lock(mutex_);
  return waited_;
}

}  // namespace zeroshard
