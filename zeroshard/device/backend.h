// What a kind of device implements for Stream, Event, Buffer and copy_bytes, and the table of the
// kinds this process has. The CPU's is always there; load_accelerators() (accelerators.h) installs
// torch's, tests install a made-up one.
//
//   install_backend(DeviceKind::cuda, std::make_unique<MyBackend>());
//   backend_of(DeviceKind::cuda).allocate(0, bytes);
//
// A backend must be safe to use from any thread and is never destroyed: memory and streams of it
// may live in static variables.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "zeroshard/device/device.h"
#include "zeroshard/device/memory_count.h"

namespace zeroshard {

// What a piece of work threw. Shared by everything that comes after it in stream order.
struct StreamFailure {
  std::exception_ptr error;
  std::atomic<bool> reported = false;  // somebody has seen it; else the stream's end logs it

  [[noreturn]] void raise();
};

// A place in a stream's order of work; an Event holds one. It never changes once it is made.
class StreamPoint {
 public:
  virtual ~StreamPoint() = default;
  virtual bool done() const = 0;
  // Blocks until the point is reached. It may throw what the device itself failed with, never what
  // work threw.
  virtual void block() const = 0;
  // Once the point is reached, this says what went wrong before it; null where nothing did.
  virtual std::shared_ptr<StreamFailure> failure() const { return nullptr; }
  // Where a host thread still has to give a device the work before this point: blocks until it has,
  // throws what went wrong in that, and answers with the device's own point. Null: this is it.
  virtual std::shared_ptr<const StreamPoint> point_on_device() const { return nullptr; }

  // Blocks as block() does, then throws the failure.
  void synchronize() const;
};

using PointPtr = std::shared_ptr<const StreamPoint>;

// The device's own point behind any number of others; blocks until it is known.
PointPtr innermost(PointPtr point);

// The ends of a copy. The caller keeps both until the copy is done.
struct CopyRequest {
  void* to = nullptr;
  Device to_device = kCpu;
  const void* from = nullptr;
  Device from_device = kCpu;
  std::int64_t bytes = 0;
};

// What the driver says of a device, all its processes together.
struct DeviceMemory {
  std::int64_t total = 0;
  std::int64_t free = 0;
  std::int64_t kept = 0;  // by this process's allocator, given out or not: of what is not free
};

// Kernels of an urgent stream are begun before those of others that wait for room on the device. It
// is for those that other ranks wait for.
enum class StreamPriority { usual, urgent };

// One order of work; stream.h says what each call promises.
class StreamQueue {
 public:
  virtual ~StreamQueue() = default;
  virtual Device device() const = 0;
  virtual std::int64_t id() const = 0;  // of all queues of one device: equal where the order is one
  virtual void run(std::function<void()> work) = 0;
  virtual void copy(const CopyRequest& request) = 0;
  virtual PointPtr record() = 0;
  virtual void wait(const PointPtr& point) = 0;
  virtual void synchronize() = 0;
  // The driver's own handle (a CUstream), for kernels; null is the driver's default stream.
  virtual void* native() const { return nullptr; }
};

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  virtual int device_count() const = 0;
  virtual std::shared_ptr<StreamQueue> current_stream(int index) = 0;
  virtual std::shared_ptr<StreamQueue> make_stream(int index, StreamPriority priority) = 0;
  // The memory goes back when the last copy of the pointer does. It is 256-byte aligned, and null
  // where there is not enough. Nobody asks for 0 bytes.
  virtual std::shared_ptr<void> allocate(int index, std::int64_t bytes) = 0;
  // The same of host memory that device `index` copies from and to without the CPU's help.
  virtual std::shared_ptr<void> allocate_pinned(int index, std::int64_t bytes) = 0;
  // Makes such memory of host memory that is somebody else's and stays where it is until unpin().
  // The answer is "", or the driver's words for why it cannot.
  virtual std::string pin(int index, void* data, std::int64_t bytes) = 0;
  virtual void unpin(int index, void* data) noexcept = 0;
  virtual bool is_pinned(int index, const void* data) = 0;
  // Gives memory that nobody holds back to the driver, so that other processes can have it:
  // allocators keep some for the next who asks.
  virtual void trim(int index) = 0;
  // What is given out, to us and to torch alike.
  virtual MemoryUse memory_use(int index) = 0;
  virtual void forget_memory_peak(int index) = 0;
  // Tells this device from all others, on any host: two ranks whose devices say the same share one.
  virtual std::string identity(int index) = 0;
  // Where the device is on its machine's bus; empty where nobody knows.
  virtual std::string bus(int) { return {}; }
  // Unset for the CPU: base/memory_room.h knows what the host has.
  virtual std::optional<DeviceMemory> device_memory(int index) = 0;
};

// Throws ConfigError where this process has no such device, saying why and what to do.
DeviceBackend& backend_of(DeviceKind kind);

// The backend stays for the rest of the process. A kind is installed once; a second time is an
// InvariantError.
void install_backend(DeviceKind kind, std::unique_ptr<DeviceBackend> backend);

// This says why there is no backend of the kind, and "" where there is one. explain_missing() sets
// the reason.
std::string missing_reason(DeviceKind kind);
void explain_missing(DeviceKind kind, std::string reason);

}  // namespace zeroshard
