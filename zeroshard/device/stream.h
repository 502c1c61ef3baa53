// An order of work on one device. A value; copies speak of the same stream.
//
//   Stream side = Stream::make(kCpu);     // a thread of its own
//   side.run([&] { update(shard); });     // returns at once
//   Event updated;
//   updated.record(side);
//   Stream::current(kCpu).wait(updated);  // later work of this thread comes after; may throw
//
// Errors of work are never lost: later work of the stream is skipped, and the error is thrown by
// its synchronize(), by synchronize() of events recorded after it, and by everything that waits
// for such an event: a stream that does fails in the same way.
#pragma once

#include <functional>
#include <memory>

#include "zeroshard/device/backend.h"

namespace zeroshard {

class Event;

class Stream {
 public:
  // The CPU: the calling thread itself, whose work is done when a call returns. An accelerator:
  // torch's current stream of the calling thread.
  static Stream current(Device device);
  // Beside the current one. On the CPU a thread, which ends after the work it was given when the
  // last copy goes; on an accelerator one of torch's pool.
  static Stream make(Device device);

  Device device() const { return queue_->device(); }
  // Among the streams of one device: equal where they are one order of work.
  std::int64_t id() const { return queue_->id(); }
  // Whether it is the CPU's current stream, on which nothing is under way when a call returns.
  bool is_calling_thread() const { return device() == kCpu && id() == kCallingThreadId; }

  // The driver's own handle of an accelerator's stream (kernel_module.h).
  void* native() const { return queue_->native(); }

  // The CPU's side stream queues the work. An accelerator's work is what `work` launches: it is
  // called now, with this stream as torch's current one, and what it throws is thrown here.
  void run(std::function<void()> work) const;
  // Work given from now on comes after the event. Between streams of accelerators, and on a side
  // stream of the CPU, this returns at once. Else it blocks the caller: the calling thread's own
  // stream waits, and an accelerator cannot wait for the CPU by itself.
  void wait(const Event& event) const;
  // Blocks until all work given so far is done. Throws the first error, which is thereby cleared:
  // work given from then on is done again.
  void synchronize() const;

 private:
  friend class Event;
  friend void copy_bytes(const Stream& stream, void* to, Device to_device, const void* from,
                         Device from_device, std::int64_t bytes);

  explicit Stream(std::shared_ptr<StreamQueue> queue) : queue_(std::move(queue)) {}

  std::shared_ptr<StreamQueue> queue_;
};

}  // namespace zeroshard
