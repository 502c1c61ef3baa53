#include "zeroshard/device/torch_cpu_memory.h"

#include <mutex>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <malloc.h>

#include "zeroshard/device/memory_count.h"
#include "zeroshard/device/tensor_arena.h"

namespace zeroshard {
namespace {

// Addresses cost nothing, and no machine has as much memory.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 42;
// Malloc has room for smaller ones among its own.
constexpr std::int64_t kLeastBytes = 64 << 10;
constexpr int kLargeForMalloc = 1 << 20;

class KeepingAllocator final : public c10::Allocator {
 public:
  explicit KeepingAllocator(c10::Allocator& other) : other_(other) { only_one = this; }

  c10::DataPtr allocate(std::size_t wanted) override {
    const auto bytes = static_cast<std::int64_t>(wanted);
    refuse_beyond_limit(bytes);
    if (void* const data = bytes >= kLeastBytes ? arena_.take(bytes) : nullptr) {
      cpu_memory_count().add(arena_.bytes_of(data));
      return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DataPtr memory = other_.allocate(wanted);
    void* const data = memory.release_context();
    if (data != nullptr) cpu_memory_count().add(bytes_of_malloc(data));
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    other_.copy_data(to, from, bytes);
  }

 private:
  static std::int64_t bytes_of_malloc(void* data) {
    return static_cast<std::int64_t>(malloc_usable_size(data));
  }

  static void give_back(void* data) {
    if (data == nullptr) return;
    if (only_one->arena_.owns(data)) {
      cpu_memory_count().add(-only_one->arena_.bytes_of(data));
      only_one->arena_.give_back(data);
    } else {
      cpu_memory_count().add(-bytes_of_malloc(data));
      only_one->other_.raw_deleter()(data);
    }
  }

  // In torch's own words, which whoever looks for them knows (trainer/out_of_memory.h).
  static void refuse_beyond_limit(std::int64_t bytes) {
    TORCH_CHECK(cpu_memory_count().has_room_for(bytes),
                "DefaultCPUAllocator: not enough memory: you tried to allocate ", bytes, " bytes.");
  }

  static KeepingAllocator* only_one;

  c10::Allocator& other_;
  TensorArena arena_{kMostBytes};
};

KeepingAllocator* KeepingAllocator::only_one = nullptr;

}  // namespace

void keep_torch_cpu_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::Allocator* const other = c10::GetCPUAllocator();
    // Somebody else's may not take its memory from malloc.
    if (other != c10::GetDefaultCPUAllocator()) return;
    c10::SetCPUAllocator(new KeepingAllocator(*other));  // tensors may outlive everything
    // What is still large among malloc's does not come again at each step: it goes back at once,
    // and does not make malloc keep as much from then on.
    mallopt(M_MMAP_THRESHOLD, kLargeForMalloc);
  });
}

}  // namespace zeroshard
