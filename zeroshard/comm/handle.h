// The caller's end of an operation that may still be running: an event, and the operation's error.
//
//   Handle gathered = comm.all_gather_into({{shard, full}}, "block.3");
//   gathered.wait(compute);  // what `compute` is given from now on reads `full`; the host goes on
//   gathered.wait();         // or: the host waits, and then reads `full` itself
//
// Who makes the end decides how far the host can go on:
// - Host threads (mpi, c10d, thread): there is nothing that an accelerator could wait for, so
//   wait(stream) of an accelerator's stream blocks the host until the operation is over.
// - Host threads whose last work is on a device (carry_through_host): wait(stream) blocks the host
//   until the last copy up is issued, and the stream waits for that copy.
// - Streams (nccl): wait(stream) blocks the host until all ranks have called the operation, and the
//   stream waits for the rest.
// A stream of the CPU waits for any of them: the calling thread's own on the spot, a side stream in
// its own thread.
//
// An operation's error is thrown by wait() and by wait(stream) where the host knows it by then; an
// error of the last work on a device comes later. It is never lost: the stream that waits fails,
// and so do the communicator's next calls and whoever waits for everything, as the engine's quiesce
// does. When a handle says that its operation failed, nothing touches the operation's memory any
// more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "zeroshard/base/unwinding.h"
#include "zeroshard/device/event.h"

namespace zeroshard {

// The backend's end: finished once, with or without an error. As a point it is reached when the
// operation's last work is over, on whichever device.
class Completion final : public StreamPoint {
 public:
  // What makes the operation end soon, with an error if need be. Set before anybody has a handle.
  void set_abandon(std::function<void()> abandon) { abandon_ = std::move(abandon); }
  // Blocks until nothing touches the operation's memory any more.
  void abandon() const noexcept;

  void finish(std::exception_ptr error = nullptr);
  // All is issued, and `last` comes behind the operation's last work on a device's stream.
  void finish_behind(const Event& last);
  // Calls `act` once: when a backend finishes the operation (its last copies may still be under
  // way on a device), on the thread that does and before anybody who waits hears of it; at once
  // where that has been. It is short, throws nothing and asks nothing of this operation. There is
  // one at most.
  void when_done(std::function<void()> act) const;
  // Blocks until all is issued or until the time is over; whether it is.
  bool issued_within(std::chrono::milliseconds time) const;

  bool done() const override;
  void block() const override;
  std::shared_ptr<StreamFailure> failure() const override;
  PointPtr point_on_device() const override;

 private:
  void finish(const Event& last, std::exception_ptr error);
  bool issued() const;
  void wait_until_issued() const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool issued_ = false;
  // Both are set once, before issued_ is, and are read without the lock from then on.
  Event last_;
  std::shared_ptr<StreamFailure> failure_;
  mutable std::function<void()> when_done_;
  std::function<void()> abandon_;
};

// A value; copies speak of the same operation. An empty one is done. Where an exception takes it
// away, its operation's memory is about to go as well: then the operation is given up.
class Handle {
 public:
  Handle() = default;
  ~Handle() {
    if (unwinding_ && completion_ != nullptr) completion_->abandon();
  }
  Handle(const Handle&) = default;
  Handle(Handle&&) = default;
  Handle& operator=(const Handle&) = default;
  Handle& operator=(Handle&&) = default;
  explicit Handle(std::shared_ptr<const Completion> completion)
      : completion_(std::move(completion)) {}

  // Whether the operation is over, well or not.
  bool done() const { return completion_ == nullptr || completion_->done(); }
  bool issued_within(std::chrono::milliseconds time) const {
    return completion_ == nullptr || completion_->issued_within(time);
  }
  // Blocks the host until the operation is over, then throws its error. May be called again.
  void wait() const {
    if (completion_ != nullptr) completion_->synchronize();
  }
  // What `stream` is given from now on comes after the operation; see above for who waits.
  void wait(const Stream& stream) const {
    if (completion_ != nullptr) stream.wait(Event(completion_));
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
