#include "zeroshard/device/stalls.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "zeroshard/device/buffer.h"

namespace zeroshard {
namespace {

std::atomic<bool> is_on = false;
std::atomic<std::int64_t> stalled = 0;
std::atomic<std::uint64_t> seed = 1;
std::atomic<int> one_in = 1;
std::atomic<std::int64_t> at_most_us = 0;

// How long to wait here; 0 mostly. Every thread draws numbers of its own.
std::chrono::microseconds draw() {
  static std::atomic<std::uint64_t> threads = 0;
  thread_local std::mt19937_64 random(seed + ++threads);
  if (random() % static_cast<std::uint64_t>(one_in) != 0) return {};
  ++stalled;
  return std::chrono::microseconds(random() % static_cast<std::uint64_t>(at_most_us + 1));
}

constexpr std::int64_t kScratchBytes = std::int64_t{8} << 20;

// Never given back: the driver may be gone by the time static variables are.
void* scratch_on(Device device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& by_device = *new std::map<int, std::unique_ptr<Buffer>>;
  const std::lock_guard lock(mutex);
  auto& buffer = by_device[device.index];
  if (buffer == nullptr) buffer = std::make_unique<Buffer>(device, kScratchBytes);
  return buffer->data();
}

}  // namespace

RandomStalls::RandomStalls(const StallOptions& options) {
  seed = options.seed;
  one_in = std::max(1, options.one_in);
  at_most_us = options.at_most.count();
  is_on = true;
}

RandomStalls::~RandomStalls() { is_on = false; }

std::int64_t stalls_so_far() { return stalled; }

void stall_here() {
  if (!is_on.load(std::memory_order_relaxed)) return;
  const auto time = draw();
  if (time.count() > 0) std::this_thread::sleep_for(time);
}

// A copy within the scratch memory takes a few microseconds. What it moves means nothing.
void stall(const Stream& stream) {
  if (!is_on.load(std::memory_order_relaxed) || stream.device() == kCpu) return;
  const Device device = stream.device();
  auto* const scratch = static_cast<std::byte*>(scratch_on(device));
  for (auto time = draw(); time.count() > 0;
       time -= std::min(time, std::chrono::microseconds(10))) {
    copy_bytes(stream, scratch, device, scratch + kScratchBytes / 2, device, kScratchBytes / 2);
  }
}

}  // namespace zeroshard
