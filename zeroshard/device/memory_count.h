// How much of a device's memory is given out, now and at most.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace zeroshard {

struct MemoryUse {
  std::int64_t now = 0;
  std::int64_t peak = 0;  // since it was forgotten last

  bool operator==(const MemoryUse&) const = default;
};

// Counts what any thread takes and gives back.
class MemoryCount {
 public:
  void add(std::int64_t bytes) {
    const std::int64_t now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  MemoryUse use() const { return {now_, peak_}; }
  void forget_peak() { peak_ = now_.load(); }

  // Who takes memory asks first; nobody is stopped here.
  void set_limit(std::int64_t bytes) { limit_ = bytes; }
  bool has_room_for(std::int64_t bytes) const { return bytes <= limit_ - now_; }

 private:
  std::atomic<std::int64_t> now_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
  std::atomic<std::int64_t> limit_ = std::numeric_limits<std::int64_t>::max();
};

// Of the CPU as a device: what its backend has given out, and torch's tensors where they are
// counted (torch_cpu_memory.h). The host tier is not among it. Beyond the limit both are refused.
MemoryCount& cpu_memory_count();

}  // namespace zeroshard
