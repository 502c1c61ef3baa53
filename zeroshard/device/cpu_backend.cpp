#include "zeroshard/device/cpu_backend.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#include "zeroshard/device/cpu_queue.h"

namespace zeroshard {
namespace {

// States are streamed through at every step: with pages of 4 KiB the CPU looks up addresses as
// often as it computes. Where the kernel has no larger ones, nothing is lost.
void prefer_huge_pages(void* data, std::size_t size) {
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20U;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = (begin + size) / kPage * kPage;
  if (first >= end) return;
  madvise(static_cast<std::byte*>(data) + (first - begin), end - first, MADV_HUGEPAGE);
}

// Where a stream's work is done when the call returns, every point is reached already.
class ReachedPoint final : public StreamPoint {
 public:
  bool done() const override { return true; }
  void block() const override {}
};

// Whichever thread calls: it works, waits and throws on the spot.
class CallingThread final : public StreamQueue {
 public:
  Device device() const override { return kCpu; }
  std::int64_t id() const override { return kCallingThreadId; }
  void run(std::function<void()> work) override { work(); }
  void copy(const CopyRequest& request) override { copy_now(request); }
  PointPtr record() override { return reached_; }
  void wait(const PointPtr& point) override { point->synchronize(); }
  void synchronize() override {}

 private:
  const PointPtr reached_ = std::make_shared<ReachedPoint>();
};

class CpuBackend final : public DeviceBackend {
 public:
  int device_count() const override { return 1; }
  std::shared_ptr<StreamQueue> current_stream(int) override { return calling_thread_; }
  std::shared_ptr<StreamQueue> make_stream(int, StreamPriority) override {
    return std::make_shared<CpuQueue>();
  }

  std::shared_ptr<void> allocate(int, std::int64_t bytes) override {
    constexpr std::align_val_t kAlignment{256};  // of every buffer, on every device
    const auto size = static_cast<std::size_t>(bytes);
    if (!cpu_memory_count().has_room_for(bytes)) return nullptr;
    void* data = ::operator new(size, kAlignment, std::nothrow);
    if (data == nullptr) return nullptr;
    prefer_huge_pages(data, size);
    cpu_memory_count().add(bytes);
    return {data, [=](void* memory) {
              ::operator delete(memory, kAlignment);
              cpu_memory_count().add(-bytes);
            }};
  }

  std::shared_ptr<void> allocate_pinned(int index, std::int64_t bytes) override {
    return allocate(index, bytes);  // the CPU copies from and to all of its memory
  }

  std::string pin(int, void*, std::int64_t) override { return ""; }
  void unpin(int, void*) noexcept override {}
  bool is_pinned(int, const void*) override { return true; }
  void trim(int) override {}
  MemoryUse memory_use(int) override { return cpu_memory_count().use(); }
  void forget_memory_peak(int) override { cpu_memory_count().forget_peak(); }
  std::string identity(int) override { return "cpu"; }
  std::optional<DeviceMemory> device_memory(int) override { return std::nullopt; }

 private:
  const std::shared_ptr<StreamQueue> calling_thread_ = std::make_shared<CallingThread>();
};

}  // namespace

MemoryCount& cpu_memory_count() {
  static MemoryCount& count = *new MemoryCount;  // memory may be given back when statics are gone
  return count;
}

std::unique_ptr<DeviceBackend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace zeroshard
