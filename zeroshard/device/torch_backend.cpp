#include "zeroshard/device/torch_backend.h"

#include <optional>
#include <string_view>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/device/cuda_driver.h"

namespace zeroshard {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::CUDA;

c10::Device torch_device(Device device) {
  if (device.kind == DeviceKind::cpu) return {c10::DeviceType::CPU};
  return {kType, static_cast<c10::DeviceIndex>(device.index)};
}

c10::impl::VirtualGuardImpl guard() { return c10::impl::VirtualGuardImpl(kType); }

// torch's errors carry a stack trace in what(); ours are a sentence.
template <typename Body>
auto with_our_errors(const Body& body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    throw StateError({.what = "a device operation failed",
                      .value = error.what_without_backtrace(),
                      .remedy = "CUDA_LAUNCH_BLOCKING=1 shows the call at fault; a device that "
                                "failed once needs a new process"});
  }
}

// Of device memory it is a type of its own, of pinned memory one of many errors of CUDA's.
bool is_out_of_memory(const c10::Error& error) {
  const std::string_view text = error.what_without_backtrace();
  return text.find("out of memory") != std::string_view::npos;
}

// torch's events make the device current that was it before, whether or not this process has a
// context there; a thread that has chosen none has the first one, and each rank would make a
// context on it. So the stream's device is the current one whenever an event is touched.
class TorchPoint final : public StreamPoint {
 public:
  explicit TorchPoint(const c10::Stream& stream) : device_(stream.device()) {
    const c10::DeviceGuard current(device_);
    event_.emplace(stream.device_type());
    event_->record(stream);
  }
  ~TorchPoint() override {
    try {
      const c10::DeviceGuard current(device_);
      event_.reset();
    } catch (const c10::Error& error) {  // a broken device: the process ends soon
      log_warning("an event was not given back: {}", error.what_without_backtrace());
    }
  }
  bool done() const override {
    return with_our_errors([&] { return event_->query(); });
  }
  void block() const override {
    with_our_errors([&] { event_->synchronize(); });
  }
  void hold_up(const c10::Stream& stream) const {
    const c10::DeviceGuard current(stream.device());
    event_->block(stream);
  }

 private:
  const c10::Device device_;
  std::optional<c10::Event> event_;
};

at::Tensor bytes_at(void* data, Device device, std::int64_t bytes) {
  const c10::Device where = torch_device(device);
  const std::int64_t sizes[] = {bytes};
  return at::for_blob(data, sizes)
      .options(c10::TensorOptions().dtype(at::kByte).device(where))
      .target_device(where)
      .make_tensor();
}

class TorchQueue final : public StreamQueue {
 public:
  explicit TorchQueue(c10::Stream stream) : stream_(stream) {}

  Device device() const override { return {DeviceKind::cuda, stream_.device_index()}; }
  std::int64_t id() const override { return stream_.id(); }
  void* native() const override { return stream_.native_handle(); }

  void run(std::function<void()> work) override {
    const c10::StreamGuard scope(stream_);
    work();
  }

  void copy(const CopyRequest& request) override {
    with_our_errors([&] {
      const c10::StreamGuard scope(stream_);
      const at::Tensor to = bytes_at(request.to, request.to_device, request.bytes);
      to.copy_(bytes_at(const_cast<void*>(request.from), request.from_device, request.bytes),
               /*non_blocking=*/true);
    });
  }

  PointPtr record() override {
    return with_our_errors([&] { return std::make_shared<TorchPoint>(stream_); });
  }

  void wait(const PointPtr& point) override {
    const PointPtr inner = innermost(point);
    const auto* own = dynamic_cast<const TorchPoint*>(inner.get());
    if (own == nullptr) return point->synchronize();
    with_our_errors([&] { own->hold_up(stream_); });
  }

  void synchronize() override {
    with_our_errors([&] { stream_.synchronize(); });
  }

 private:
  const c10::Stream stream_;
};

// torch's allocators may throw when they take memory back, on a device that is broken. A destructor
// must not: then the process ends soon, and its memory with it.
std::shared_ptr<void> shared(c10::DataPtr memory) {
  void* const data = memory.get();
  const c10::DeleterFnPtr give_back = memory.get_deleter();
  return {data, [give_back, context = memory.release_context()](void*) noexcept {
            try {
              give_back(context);
            } catch (const c10::Error& error) {
              log_warning("device memory was not given back: {}", error.what_without_backtrace());
            }
          }};
}

class TorchBackend final : public DeviceBackend {
 public:
  int device_count() const override { return guard().deviceCount(); }

  std::shared_ptr<StreamQueue> current_stream(int index) override {
    return std::make_shared<TorchQueue>(guard().getStream(device(index)));
  }

  std::shared_ptr<StreamQueue> make_stream(int index, StreamPriority priority) override {
    return std::make_shared<TorchQueue>(
        guard().getStreamFromGlobalPool(device(index), priority == StreamPriority::urgent));
  }

  std::shared_ptr<void> allocate(int index, std::int64_t bytes) override {
    return allocate(*c10::GetAllocator(kType), index, bytes);
  }

  std::shared_ptr<void> allocate_pinned(int index, std::int64_t bytes) override {
    return allocate(*at::getHostAllocator(kType), index, bytes);
  }

  std::string pin(int index, void* data, std::int64_t bytes) override {
    constexpr unsigned kForAllContexts = 1;  // CU_MEMHOSTREGISTER_PORTABLE
    const CudaContextScope scope(primary_context(index));
    const auto result =
        cuda_driver().mem_host_register(data, static_cast<std::size_t>(bytes), kForAllContexts);
    return result == 0 ? "" : cuda_driver().message_of(result);
  }

  void unpin(int index, void* data) noexcept override {
    try {
      const CudaContextScope scope(primary_context(index));
      cuda_driver().mem_host_unregister(data);
    } catch (const Error&) {  // the device is broken: the process ends soon, and the pins with it
    }
  }

  bool is_pinned(int, const void* data) override {
    return with_our_errors([&] { return at::globalContext().isPinnedPtr(data, kType); });
  }

  void trim(int index) override {
    with_our_errors([&] {
      const c10::DeviceGuard scope(device(index));
      c10::getDeviceAllocator(kType)->emptyCache();
    });
  }

  MemoryUse memory_use(int index) override {
    return with_our_errors([&] {
      const auto stats = c10::getDeviceAllocator(kType)->getDeviceStats(narrow(index));
      const auto& given = stats.allocated_bytes[kAllPools];
      return MemoryUse{.now = given.current, .peak = given.peak};
    });
  }

  void forget_memory_peak(int index) override {
    with_our_errors([&] { c10::getDeviceAllocator(kType)->resetPeakStats(narrow(index)); });
  }

  std::string identity(int index) override { return device_uuid(index); }

  std::string bus(int index) override { return device_bus(index); }

  std::optional<DeviceMemory> device_memory(int index) override {
    return with_our_errors([&] {
      const c10::DeviceGuard scope(device(index));
      c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(kType);
      const auto [free, total] = allocator->getMemoryInfo(narrow(index));
      DeviceMemory memory{.total = static_cast<std::int64_t>(total),
                          .free = static_cast<std::int64_t>(free)};
      if (allocator->initialized()) {
        memory.kept = allocator->getDeviceStats(narrow(index)).reserved_bytes[kAllPools].current;
      }
      return memory;
    });
  }

 private:
  static constexpr std::size_t kAllPools = 0;  // of the two that it counts by themselves

  static c10::DeviceIndex narrow(int index) { return static_cast<c10::DeviceIndex>(index); }
  static c10::Device device(int index) { return torch_device({DeviceKind::cuda, index}); }

  static std::shared_ptr<void> allocate(c10::Allocator& from, int index, std::int64_t bytes) {
    return with_our_errors([&]() -> std::shared_ptr<void> {
      const c10::DeviceGuard scope(device(index));
      try {
        return shared(from.allocate(static_cast<std::size_t>(bytes)));
      } catch (const c10::Error& error) {
        if (is_out_of_memory(error)) return nullptr;
        throw;
      }
    });
  }
};

}  // namespace

std::unique_ptr<DeviceBackend> make_torch_backend() {
  try {
    // Without it the first allocation finds an allocator that knows of no device.
    at::globalContext().lazyInitDevice(kType);
    return std::make_unique<TorchBackend>();
  } catch (const c10::Error& error) {
    throw ConfigError(
        {.what = fmt::format("torch cannot start CUDA ({})", error.what_without_backtrace())});
  }
}

}  // namespace zeroshard
