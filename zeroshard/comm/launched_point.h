// The end of a launched operation as those see it who wait for it: the device's own event, and the
// error of an order of launches that failed before the event was reached. An aborted operation's
// event is reached, too, and says nothing of that.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "zeroshard/device/event.h"

namespace zeroshard {

class LaunchedPoint final : public StreamPoint {
 public:
  explicit LaunchedPoint(PointPtr end) : end_(std::move(end)) {}

  // Before the operation is aborted.
  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    failure_ = std::make_shared<StreamFailure>();
    failure_->error = std::move(error);
    failure_->reported = true;  // the order's next call throws it as well
  }

  bool done() const override { return end_->done(); }
  void block() const override { end_->block(); }
  std::shared_ptr<StreamFailure> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_ != nullptr ? failure_ : end_->failure();
  }
  PointPtr point_on_device() const override { return end_; }

 private:
  const PointPtr end_;
  mutable std::mutex mutex_;
  std::shared_ptr<StreamFailure> failure_;
};

}  // namespace zeroshard
