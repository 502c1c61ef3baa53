// An accelerator made of threads, for tests: it takes the place of CUDA. Its streams dawdle at
// random, so that a missing wait shows, and its memory cannot be touched except by its own copies
// and kernels: who reads it from the host dies of SIGSEGV, as with a real device.
//
//   FakeAccelerator& fake = FakeAccelerator::install();   // once per process; later calls find it
//   Stream stream = Stream::make(fake.device());
//   fake.launch(stream, [] { ... });                      // a "kernel": runs in stream order
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "zeroshard/device/backend.h"
#include "zeroshard/device/stream.h"

namespace zeroshard {

class FakeAccelerator final : public DeviceBackend {
 public:
  static FakeAccelerator& install();

  static constexpr Device device() { return {DeviceKind::cuda, 0}; }
  // More than this at once is out of memory.
  static constexpr std::int64_t kCapacity = std::int64_t{1} << 30;

  void launch(const Stream& stream, std::function<void()> kernel);
  // The same by the driver's handle of the stream.
  static void launch(void* native_stream, std::function<void()> kernel);
  // While it lives, a kernel may touch this memory of the device.
  class Access;
  // Events that its streams have recorded so far.
  std::int64_t recorded() const { return recorded_; }
  // Host memory that is pinned now, of pin() and allocate_pinned(); how much pin() grants at most,
  // as a machine with a low limit would; and how many copies had a host end that was not pinned.
  std::int64_t pinned_bytes() const;
  void limit_pinning(std::int64_t bytes) { pin_limit_ = bytes; }
  std::int64_t unpinned_copies() const { return unpinned_copies_; }
  std::int64_t trims() const { return trims_; }
  // Without dying of it.
  bool host_can_read(const void* data) const;

  int device_count() const override { return 1; }
  std::shared_ptr<StreamQueue> current_stream(int index) override;
  std::shared_ptr<StreamQueue> make_stream(int index, StreamPriority priority) override;
  std::shared_ptr<void> allocate(int index, std::int64_t bytes) override;
  std::shared_ptr<void> allocate_pinned(int index, std::int64_t bytes) override;
  std::string pin(int index, void* data, std::int64_t bytes) override;
  void unpin(int index, void* data) noexcept override;
  bool is_pinned(int index, const void* data) override;
  void trim(int) override { ++trims_; }
  MemoryUse memory_use(int) override { return use_.use(); }
  void forget_memory_peak(int) override { use_.forget_peak(); }
  // Each rank's threads have a device of their own, unless they are told to share one.
  std::string identity(int) override;
  void share_among_ranks(bool shared) { shared_ = shared; }
  std::string bus(int) override { return bus_; }
  void put_on_bus(std::string place) { bus_ = std::move(place); }  // before ranks ask
  std::optional<DeviceMemory> device_memory(int) override {
    return DeviceMemory{.total = kCapacity, .free = kCapacity - use_.use().now};
  }

 private:
  friend class FakeQueue;

  // Memory is open while somebody is at it; several streams may be.
  struct Region {
    std::int64_t bytes = 0;
    int users = 0;
  };

  void open(const void* data, std::int64_t bytes);
  void close(const void* data);
  void give_back(void* data);
  std::map<std::uintptr_t, Region>::iterator region_of(const void* data);

  void note_host_end(Device device, const void* data);

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Region> regions_;
  MemoryCount use_;
  std::map<std::uintptr_t, std::int64_t> pinned_;  // bytes by address
  std::atomic<std::int64_t> pin_limit_ = std::int64_t{1} << 40;
  std::atomic<std::int64_t> unpinned_copies_ = 0, trims_ = 0;
  std::atomic<std::int64_t> recorded_ = 0;
  std::atomic<bool> shared_ = false;
  std::string bus_;
  std::shared_ptr<StreamQueue> default_queue_;
};

class FakeAccelerator::Access {
 public:
  Access(FakeAccelerator& fake, Device device, const void* data, std::int64_t bytes)
      : fake_(fake), data_(device.kind == DeviceKind::cpu || bytes == 0 ? nullptr : data) {
    if (data_ != nullptr) fake_.open(data_, bytes);
  }
  ~Access() {
    if (data_ != nullptr) fake_.close(data_);
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  FakeAccelerator& fake_;
  const void* data_;
};

}  // namespace zeroshard
