#include "tests/support/fake_accelerator.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/device/cpu_queue.h"

namespace zeroshard {

// A CPU side stream that dawdles, with the manners of an accelerator: run() calls at once.
class FakeQueue final : public StreamQueue, public std::enable_shared_from_this<FakeQueue> {
 public:
  explicit FakeQueue(FakeAccelerator& fake, unsigned seed) : fake_(fake), random_(seed) {}

  Device device() const override { return FakeAccelerator::device(); }
  std::int64_t id() const override { return queue_.id(); }
  void* native() const override { return const_cast<FakeQueue*>(this); }

  void run(std::function<void()> work) override;

  void launch(std::function<void()> kernel) {
    queue_.run([this, kernel = std::move(kernel)] {
      dawdle();
      kernel();
    });
  }

  void copy(const CopyRequest& request) override {
    fake_.note_host_end(request.to_device, request.to);
    fake_.note_host_end(request.from_device, request.from);
    launch([this, request] {
      const FakeAccelerator::Access to(fake_, request.to_device, request.to, request.bytes);
      const FakeAccelerator::Access from(fake_, request.from_device, request.from, request.bytes);
      std::memcpy(request.to, request.from, static_cast<std::size_t>(request.bytes));
    });
  }

  PointPtr record() override {
    ++fake_.recorded_;
    return std::make_shared<FakePoint>(queue_.record());
  }

  // As CUDA: its own events wait on the device, others hold up the caller.
  void wait(const PointPtr& point) override {
    const PointPtr inner = innermost(point);
    const auto* own = dynamic_cast<const FakePoint*>(inner.get());
    own != nullptr ? queue_.wait(own->inner) : point->synchronize();
  }

  void synchronize() override { queue_.synchronize(); }

 private:
  struct FakePoint final : StreamPoint {
    explicit FakePoint(PointPtr point) : inner(std::move(point)) {}
    bool done() const override { return inner->done(); }
    void block() const override { inner->block(); }
    std::shared_ptr<StreamFailure> failure() const override { return inner->failure(); }
    const PointPtr inner;
  };

  void dawdle() {
    const unsigned draw = random_();
    if (draw % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw / 8 % 100));
  }

  FakeAccelerator& fake_;
  std::minstd_rand random_;  // of the queue's thread alone
  CpuQueue queue_;           // last: it ends before what it uses
};

namespace {

// torch's current stream is per thread as well; null means the default one.
thread_local FakeQueue* current_queue = nullptr;

std::int64_t whole_pages(std::int64_t bytes) {
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

void protect(std::uintptr_t start, std::int64_t bytes, int protection) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const int failed =
      mprotect(reinterpret_cast<void*>(start), static_cast<std::size_t>(bytes), protection);
  ZS_CHECK_EQ(failed, 0, "mprotect");
}

}  // namespace

void FakeQueue::run(std::function<void()> work) {
  struct Restore {
    FakeQueue* const outer = current_queue;
    ~Restore() { current_queue = outer; }
  } const restore;
  current_queue = this;
  work();
}

FakeAccelerator& FakeAccelerator::install() {
  static FakeAccelerator& fake = [&]() -> FakeAccelerator& {
    auto made = std::make_unique<FakeAccelerator>();
    FakeAccelerator& kept = *made;
    kept.default_queue_ = kept.make_stream(0, StreamPriority::usual);
    install_backend(DeviceKind::cuda, std::move(made));
    return kept;
  }();
  return fake;
}

void FakeAccelerator::launch(const Stream& stream, std::function<void()> kernel) {
  stream.run([&] { current_queue->launch(std::move(kernel)); });
}

void FakeAccelerator::launch(void* native_stream, std::function<void()> kernel) {
  static_cast<FakeQueue*>(native_stream)->launch(std::move(kernel));
}

bool FakeAccelerator::host_can_read(const void* data) const {
  int ends[2];
  ZS_CHECK_EQ(pipe(ends), 0, "pipe");
  const bool readable = write(ends[1], data, 1) == 1;  // EFAULT instead of a signal
  ::close(ends[0]);
  ::close(ends[1]);
  return readable;
}

std::string FakeAccelerator::identity(int) {
  return shared_ ? "shared" : "of rank " + std::to_string(current_rank());
}

std::shared_ptr<StreamQueue> FakeAccelerator::current_stream(int) {
  if (current_queue == nullptr) return default_queue_;
  return current_queue->shared_from_this();
}

std::shared_ptr<StreamQueue> FakeAccelerator::make_stream(int, StreamPriority) {
  static std::atomic<unsigned> made = 0;
  return std::make_shared<FakeQueue>(*this, ++made);
}

std::shared_ptr<void> FakeAccelerator::allocate(int, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > kCapacity - use_.use().now) return nullptr;
  void* data = mmap(nullptr, static_cast<std::size_t>(whole_pages(bytes)), PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ZS_CHECK(data != MAP_FAILED, "mmap");
  regions_[reinterpret_cast<std::uintptr_t>(data)] = {bytes, 0};
  use_.add(bytes);
  return {data, [this](void* memory) { give_back(memory); }};
}

std::shared_ptr<void> FakeAccelerator::allocate_pinned(int, std::int64_t bytes) {
  const std::shared_ptr<void> memory = backend_of(DeviceKind::cpu).allocate(0, bytes);
  const std::lock_guard lock(mutex_);
  pinned_[reinterpret_cast<std::uintptr_t>(memory.get())] = bytes;
  return {memory.get(), [this, memory](void* data) { unpin(0, data); }};
}

std::string FakeAccelerator::pin(int, void* data, std::int64_t bytes) {
  if (pinned_bytes() + bytes > pin_limit_) return "too much for this fake";
  const std::lock_guard lock(mutex_);
  pinned_[reinterpret_cast<std::uintptr_t>(data)] = bytes;
  return "";
}

void FakeAccelerator::unpin(int, void* data) noexcept {
  const std::lock_guard lock(mutex_);
  pinned_.erase(reinterpret_cast<std::uintptr_t>(data));
}

bool FakeAccelerator::is_pinned(int, const void* data) {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto after = pinned_.upper_bound(address);
  if (after == pinned_.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return address < begin + static_cast<std::uintptr_t>(bytes);
}

std::int64_t FakeAccelerator::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& [address, size] : pinned_) bytes += size;
  return bytes;
}

void FakeAccelerator::note_host_end(Device device, const void* data) {
  if (device.kind == DeviceKind::cpu && !is_pinned(0, data)) ++unpinned_copies_;
}

void FakeAccelerator::give_back(void* data) {
  const std::lock_guard lock(mutex_);
  const auto region = region_of(data);
  ZS_CHECK_EQ(region->second.users, 0, "device memory went back while it was in use");
  use_.add(-region->second.bytes);
  munmap(data, static_cast<std::size_t>(whole_pages(region->second.bytes)));
  regions_.erase(region);
}

void FakeAccelerator::open(const void* data, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto region = region_of(data);
  const auto begin = reinterpret_cast<std::uintptr_t>(data) - region->first;
  ZS_CHECK_LE(static_cast<std::int64_t>(begin) + bytes, region->second.bytes,
              "a copy beyond the end of device memory");
  if (region->second.users++ == 0) {
    protect(region->first, whole_pages(region->second.bytes), PROT_READ | PROT_WRITE);
  }
}

void FakeAccelerator::close(const void* data) {
  const std::lock_guard lock(mutex_);
  const auto region = region_of(data);
  if (--region->second.users > 0) return;
  protect(region->first, whole_pages(region->second.bytes), PROT_NONE);
}

std::map<std::uintptr_t, FakeAccelerator::Region>::iterator FakeAccelerator::region_of(
    const void* data) {
  const auto after = regions_.upper_bound(reinterpret_cast<std::uintptr_t>(data));
  ZS_CHECK(after != regions_.begin(), "host memory was passed for device memory");
  const auto region = std::prev(after);
  const auto offset = reinterpret_cast<std::uintptr_t>(data) - region->first;
  ZS_CHECK_LT(static_cast<std::int64_t>(offset), region->second.bytes,
              "host memory was passed for device memory");
  return region;
}

}  // namespace zeroshard
