#include "zeroshard/device/stream.h"

#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/device/event.h"
#include "zeroshard/device/stalls.h"

namespace zeroshard {
namespace {

DeviceBackend& backend_with(Device device) {
  DeviceBackend& backend = backend_of(device.kind);
  const int count = backend.device_count();
  if (device.index >= 0 && device.index < count) return backend;
  throw ConfigError({.what = "no such device",
                     .value = name_of(device),
                     .remedy = fmt::format("this process sees {} of them, counted from 0", count)});
}

}  // namespace

Stream Stream::current(Device device) {
  return Stream(backend_with(device).current_stream(device.index));
}

Stream Stream::make(Device device, StreamPriority priority) {
  return Stream(backend_with(device).make_stream(device.index, priority));
}

void Stream::run(std::function<void()> work) const { queue_->run(std::move(work)); }

void Stream::wait(const Event& event) const {
  if (event.point_ != nullptr) queue_->wait(event.point_);
}

void Stream::synchronize() const { queue_->synchronize(); }

void Event::wait_until_over() const noexcept {
  try {
    if (point_ != nullptr) point_->block();
  } catch (...) {  // the device itself is broken: nothing is under way on it any more
  }
}

void copy_bytes(const Stream& stream, void* to, Device to_device, const void* from,
                Device from_device, std::int64_t bytes) {
  const Device own = stream.device();
  ZS_CHECK_GE(bytes, 0, "bytes to copy");
  ZS_CHECK(own == kCpu || own == to_device || own == from_device,
           "a stream of {} cannot copy from {} to {}", name_of(own), name_of(from_device),
           name_of(to_device));
  if (to_device != from_device) stall(stream);
  if (bytes > 0) stream.queue_->copy({to, to_device, from, from_device, bytes});
}

}  // namespace zeroshard
