// A point in a stream's work that others can wait for. A value: a copy keeps the point it was made
// with, whatever is recorded later.
//
//   Event ready;                   // done, until it is recorded
//   ready.record(compute);         // all work that `compute` has been given so far
//   side.wait(ready);              // a stream of any device
//   if (!ready.done()) ready.synchronize();
#pragma once

#include <utility>

#include "zeroshard/device/stream.h"

namespace zeroshard {

class Event {
 public:
  Event() = default;
  // A point that somebody else reaches (an operation's end, handle.h); null is done.
  explicit Event(PointPtr point) : point_(std::move(point)) {}

  void record(const Stream& stream) { point_ = stream.queue_->record(); }
  // True once the work is over, well or not.
  bool done() const { return point_ == nullptr || point_->done(); }
  // True once the work is over and some of it threw.
  bool failed() const { return point_ != nullptr && point_->done() && point_->failure(); }
  // Blocks the calling thread, and throws the error of the work before the event, each time.
  void synchronize() const {
    if (point_ != nullptr) point_->synchronize();
  }
  // Blocks and throws nothing. It is for destructors, which only need the work to be over.
  void wait_until_over() const noexcept;
  const PointPtr& point() const { return point_; }

 private:
  friend class Stream;

  PointPtr point_;
};

}  // namespace zeroshard
