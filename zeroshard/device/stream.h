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
  // On the CPU this is the calling thread itself, whose work is done when a call returns; on an
  // accelerator it is torch's current stream of the calling thread.
  static Stream current(Device device);
  // Makes a stream beside the current one. On the CPU it is a thread, which ends after the work it
  // was given when the last copy of the stream goes; on an accelerator it is one of torch's pool.
  static Stream make(Device device, StreamPriority priority = StreamPriority::usual);

  Device device() const { return queue_->device(); }
  // Streams of one device have equal ids where they are one order of work.
  std::int64_t id() const { return queue_->id(); }
  // On the CPU's current stream nothing is under way when a call returns.
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
  // Blocks until all work given so far is done. It throws the first error, which is thereby
  // cleared: work given from then on is done again.
  void synchronize() const;

 private:
  friend class Event;
  friend void copy_bytes(const Stream& stream, void* to, Device to_device, const void* from,
                         Device from_device, std::int64_t bytes);

  explicit Stream(std::shared_ptr<StreamQueue> queue) : queue_(std::move(queue)) {}

  std::shared_ptr<StreamQueue> queue_;
};

// Bytes from one device to another, in the stream's order:
//
//   copy_bytes(down, pinned.data(), kCpu, shard.data(), shard.device(), shard.bytes());
//   down.synchronize();  // now the pinned memory may be read
//
// It returns at once where the stream does (an accelerator may hold the caller up while an end is
// host memory that is not pinned). Both ends stay as they are until the stream has come this far. A
// stream of the CPU copies between any devices; an accelerator's needs an end of its own.
void copy_bytes(const Stream& stream, void* to, Device to_device, const void* from,
                Device from_device, std::int64_t bytes);

}  // namespace zeroshard
