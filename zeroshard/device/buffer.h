// Memory on a device that several streams may use: it knows who wrote it and who read it last.
//
//   Buffer slot = Buffer::pinned(accelerator, bytes);
//   slot.before_write(down);              // waits for whoever still reads or writes the slot
//   copy_bytes(down, slot.data(), slot.device(), shard, accelerator, bytes);
//   slot.wrote(down);
//   slot.before_read(send); ... slot.read(send);
//
// The destructor waits until all of that is over. One thread at a time may use a buffer.
#pragma once

#include <cstdint>
#include <memory>

#include "zeroshard/device/stream_uses.h"

namespace zeroshard {

class Buffer {
 public:
  Buffer() = default;
  // The memory is 256-byte aligned and not initialised. Throws StorageError where there is not
  // enough of it.
  Buffer(Device device, std::int64_t bytes);
  // The memory is the host's, so device() is the CPU, and `accelerator` copies from and to it at
  // full speed. For the CPU itself it is plain memory.
  static Buffer pinned(Device accelerator, std::int64_t bytes);
  // The memory was had elsewhere; it goes back with the last copy of the pointer.
  static Buffer over(Device device, std::shared_ptr<void> memory, std::int64_t bytes);

  ~Buffer() { release(); }
  Buffer(Buffer&& other) noexcept = default;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return memory_.get(); }
  std::int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // What `stream` is given from now on comes after all writes by other streams.
  void before_read(const Stream& stream) const { uses_.wait_for_writes(stream); }
  // The same after all writes and all reads: the memory may be used for something else.
  void before_write(const Stream& stream) const { uses_.wait_for_all(stream); }
  // Call these after the work was given to `stream`. They cost next to nothing where it is the
  // current one and no other uses the memory (stream_uses.h).
  void wrote(const Stream& stream) { uses_.wrote(stream); }
  void read(const Stream& stream) { uses_.read(stream); }

 private:
  void release() noexcept;

  Device device_;
  std::int64_t bytes_ = 0;
  std::shared_ptr<void> memory_;
  mutable StreamUses uses_;  // waiting may record what was not recorded before
};

}  // namespace zeroshard
