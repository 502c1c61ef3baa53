#include "zeroshard/device/buffer.h"

#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

std::shared_ptr<void> checked(std::shared_ptr<void> memory, std::int64_t bytes,
                              const std::string& where) {
  if (memory != nullptr) return memory;
  throw StorageError(
      {.what = "out of memory",
       .value = fmt::format("{} ({} bytes) {}", human_bytes(bytes), bytes, where),
       .remedy = "see what holds memory there, or ask `zeroshard plan` for a smaller plan"});
}

}  // namespace

Buffer::Buffer(Device device, std::int64_t bytes) : device_(device), bytes_(bytes) {
  ZS_CHECK_GE(bytes, 0, "bytes of a buffer");
  if (bytes == 0) return;
  memory_ = checked(backend_of(device.kind).allocate(device.index, bytes), bytes,
                    "on " + name_of(device));
  // The memory may just have been given back by work that the current stream has not done yet.
  wrote(Stream::current(device));
}

Buffer Buffer::pinned(Device accelerator, std::int64_t bytes) {
  ZS_CHECK_GE(bytes, 0, "bytes of a buffer");
  Buffer buffer;
  buffer.bytes_ = bytes;
  if (bytes == 0) return buffer;
  buffer.memory_ = checked(backend_of(accelerator.kind).allocate_pinned(accelerator.index, bytes),
                           bytes, "of host memory pinned for " + name_of(accelerator));
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  device_ = other.device_;
  bytes_ = std::exchange(other.bytes_, 0);
  memory_ = std::move(other.memory_);
  writes_ = std::move(other.writes_);
  reads_ = std::move(other.reads_);
  return *this;
}

void Buffer::before_read(const Stream& stream) const { wait_for(writes_, stream); }

void Buffer::before_write(const Stream& stream) const {
  wait_for(writes_, stream);
  wait_for(reads_, stream);
}

void Buffer::note(Uses& uses, const Stream& stream) {
  Use now{stream.device(), stream.id()};
  now.event.record(stream);
  std::erase_if(uses, [&](const Use& use) {
    const bool same = use.device == now.device && use.stream_id == now.stream_id;
    // Failed uses stay: who reads next must hear of it.
    return same || (use.event.done() && !use.event.failed());
  });
  uses.push_back(std::move(now));
}

void Buffer::wait_for(const Uses& uses, const Stream& stream) {
  for (const Use& use : uses) {
    if (use.device == stream.device() && use.stream_id == stream.id()) continue;
    stream.wait(use.event);
  }
}

void Buffer::release() noexcept {
  for (const Uses* uses : {&writes_, &reads_}) {
    for (const Use& use : *uses) use.event.wait_until_over();
  }
  writes_.clear();
  reads_.clear();
  memory_.reset();
}

}  // namespace zeroshard
