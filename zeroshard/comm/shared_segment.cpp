#include "zeroshard/comm/shared_segment.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zeroshard/base/fnv1a.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kAtOnce = 64 << 10;  // bytes of one copy: the other side works meanwhile

std::uint64_t this_host() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat names {};
  stat("/proc/self/ns/pid", &names);
  return Fnv1a().add(boot).add(std::to_string(names.st_ino)).value();
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                 nullptr, 0);
}

}  // namespace

// Only whole pages of it are ever touched that messages go through.
struct SharedSegment::Head {
  alignas(64) std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint32_t> sleeps{0};
  std::atomic<std::uint32_t> closed{0};
  SharedRing rings[];  // one for each rank
};

std::int64_t SharedRing::put(const std::byte* from, std::int64_t bytes) {
  const std::uint64_t begin = written.load(std::memory_order_relaxed);
  const auto used = static_cast<std::int64_t>(begin - taken.load(std::memory_order_acquire));
  const auto at = static_cast<std::int64_t>(begin % kBytes);
  const std::int64_t count = std::min({bytes, kBytes - used, kBytes - at, kAtOnce});
  if (count <= 0) return 0;
  std::memcpy(data + at, from, static_cast<std::size_t>(count));
  written.store(begin + static_cast<std::uint64_t>(count), std::memory_order_release);
  return count;
}

std::int64_t SharedRing::take(std::byte* into, std::int64_t bytes) {
  const std::uint64_t begin = taken.load(std::memory_order_relaxed);
  const auto there = static_cast<std::int64_t>(written.load(std::memory_order_acquire) - begin);
  const auto at = static_cast<std::int64_t>(begin % kBytes);
  const std::int64_t count = std::min({bytes, there, kBytes - at, kAtOnce});
  if (count <= 0) return 0;
  std::memcpy(into, data + at, static_cast<std::size_t>(count));
  taken.store(begin + static_cast<std::uint64_t>(count), std::memory_order_release);
  return count;
}

namespace {

std::size_t bytes_for(int world_size) {
  return 64 + sizeof(SharedRing) * static_cast<std::size_t>(world_size);
}

void* map(int file, std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

SharedSegment::SharedSegment(void* memory, std::size_t bytes, const SegmentAddress& address)
    : head_(static_cast<Head*>(memory)), bytes_(bytes), address_(address) {}

// New memory of the system is zero, which is what every counter starts with.
std::unique_ptr<SharedSegment> SharedSegment::make(int world_size) {
  static_assert(sizeof(Head) == 64 && alignof(SharedRing) == 64);
  const std::size_t bytes = bytes_for(world_size);
  const int file = memfd_create("zeroshard", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* const memory = ftruncate(file, static_cast<off_t>(bytes)) == 0 ? map(file, bytes) : nullptr;
  if (memory == nullptr) {
    close(file);
    return nullptr;
  }
  return std::unique_ptr<SharedSegment>(
      new SharedSegment(memory, bytes, {this_host(), static_cast<std::int32_t>(getpid()), file}));
}

std::unique_ptr<SharedSegment> SharedSegment::attach(const SegmentAddress& address,
                                                     int world_size) {
  if (address.file < 0 || address.host != this_host()) return nullptr;
  const std::string path = fmt::format("/proc/{}/fd/{}", address.process, address.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  const std::size_t bytes = bytes_for(world_size);
  void* const memory = map(file, bytes);
  close(file);
  if (memory == nullptr) return nullptr;
  return std::unique_ptr<SharedSegment>(
      new SharedSegment(memory, bytes, {address.host, address.process, -1}));
}

SharedSegment::~SharedSegment() {
  close_file();
  munmap(head_, bytes_);
}

void SharedSegment::close_file() {
  if (address_.file >= 0) close(address_.file);
  address_.file = -1;
}

SharedRing& SharedSegment::ring_to(int peer) const { return head_->rings[peer]; }

void SharedSegment::ring_bell() const {
  head_->bell.fetch_add(1);
  if (head_->sleeps.load() != 0) futex(head_->bell, FUTEX_WAKE, INT_MAX, nullptr);
}

std::uint32_t SharedSegment::bell() const { return head_->bell.load(); }

void SharedSegment::announce_sleep(bool sleeps) const { head_->sleeps.store(sleeps ? 1 : 0); }

void SharedSegment::sleep(std::uint32_t heard, std::chrono::milliseconds at_most) const {
  const timespec timeout{.tv_sec = at_most.count() / 1000,
                         .tv_nsec = at_most.count() % 1000 * 1'000'000};
  futex(head_->bell, FUTEX_WAIT, heard, &timeout);
}

void SharedSegment::mark_closed() const { head_->closed.store(1); }

bool SharedSegment::is_gone() const {
  return head_->closed.load() != 0 || (kill(address_.process, 0) != 0 && errno == ESRCH);
}

}  // namespace zeroshard
