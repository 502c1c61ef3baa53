// Orders the streams on which one kind of an engine's memory is used: the parameters, or the
// gradients. Where everything runs on one stream, as is usual, it records nothing and waits for
// nothing; where the user computes on streams of his own, each comes after those before it.
#pragma once

#include "zeroshard/comm/handle.h"
#include "zeroshard/device/stream_uses.h"

namespace zeroshard {

class StreamOrder {
 public:
  explicit StreamOrder(Device device) : device_(device) {}

  Stream current() const { return Stream::current(device_); }
  // What the calling thread's current stream is given from now on comes after all writes so far.
  void before_read() {
    if (device_ != kCpu) uses_.before_read(current());
  }
  // The same, after all writes and reads so far.
  void before_write() {
    if (device_ != kCpu) uses_.before_write(current());
  }
  // The same, after an operation between ranks. It throws what went wrong. The operation counts as
  // a write of this stream, so that others who come later wait for it, too.
  void wait(const Handle& handle) {
    handle.wait(current());
    before_write();
  }

 private:
  const Device device_;
  StreamUses uses_;
};

}  // namespace zeroshard
