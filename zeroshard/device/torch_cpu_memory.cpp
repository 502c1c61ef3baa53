#include "zeroshard/device/torch_cpu_memory.h"

#include <mutex>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include "zeroshard/device/memory_count.h"

namespace zeroshard {
namespace {

c10::Allocator* counted = nullptr;

std::int64_t size_of(void* memory) {
  return static_cast<std::int64_t>(malloc_usable_size(memory));
}

void give_back(void* memory) {
  if (memory != nullptr) cpu_memory_count().add(-size_of(memory));
  counted->raw_deleter()(memory);
}

// Stands before an allocator whose memory comes from malloc, which knows each piece's size.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = counted->allocate(bytes);
    if (memory.get() != nullptr) cpu_memory_count().add(size_of(memory.get()));
    memory.release_context();
    return {memory.get(), memory.get(), &give_back, memory.device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    counted->copy_data(to, from, bytes);
  }
};

}  // namespace

void count_torch_cpu_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    counted = c10::GetCPUAllocator();
    // Somebody else's may not take its memory from malloc.
    if (counted != c10::GetDefaultCPUAllocator() || counted->raw_deleter() == nullptr) return;
    c10::SetCPUAllocator(new CountingAllocator);
  });
}

}  // namespace zeroshard
