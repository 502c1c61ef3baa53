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

Buffer Buffer::over(Device device, std::shared_ptr<void> memory, std::int64_t bytes) {
  Buffer buffer;
  buffer.device_ = device;
  buffer.memory_ = std::move(memory);
  buffer.bytes_ = bytes;
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  device_ = other.device_;
  bytes_ = std::exchange(other.bytes_, 0);
  memory_ = std::move(other.memory_);
  uses_ = std::move(other.uses_);
  return *this;
}

void Buffer::release() noexcept {
  uses_.wait_until_over();
  memory_.reset();
}

}  // namespace zeroshard
