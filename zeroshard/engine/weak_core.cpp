#include "zeroshard/engine/weak_core.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace zeroshard {
namespace {

// The cores that this thread is in, once for each time it has entered.
thread_local std::vector<const WeakCore*> entered;

int times_entered(const WeakCore* core) {
  return static_cast<int>(std::ranges::count(entered, core));
}

}  // namespace

Core* WeakCore::enter() {
  const std::lock_guard lock(mutex_);
  if (core_ == nullptr) return nullptr;
  ++inside_;
  entered.push_back(this);
  return core_;
}

void WeakCore::leave() {
  {
    const std::lock_guard lock(mutex_);
    --inside_;
  }
  const auto last = std::find(entered.rbegin(), entered.rend(), this);
  entered.erase(std::next(last).base());
  left_.notify_all();
}

void WeakCore::end() {
  std::unique_lock lock(mutex_);
  core_ = nullptr;
  left_.wait(lock, [&] { return inside_ == times_entered(this); });
}

CoreAccess::CoreAccess(std::shared_ptr<WeakCore> to)
    : to_(std::move(to)), core_(to_ == nullptr ? nullptr : to_->enter()) {}

CoreAccess::~CoreAccess() {
  if (core_ != nullptr) to_->leave();
}

}  // namespace zeroshard
