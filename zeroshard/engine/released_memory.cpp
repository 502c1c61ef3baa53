#include "zeroshard/engine/released_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
#include <type_traits>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

// The handler may run at any instruction of any thread, so all it reads is in here: written before
// `begin` is, read after.
struct Entry {
  std::atomic<std::uintptr_t> begin = 0;  // 0: free
  std::uintptr_t end = 0;
  std::array<char, 512> message = {};
};

constexpr int kEntries = 16384;

struct Table {
  std::array<Entry, kEntries> entries;
  std::atomic<int> used = 0;  // entries beyond were never in use
  std::mutex mutex;           // of those who write
  struct sigaction before = {};
};

// All zeros, so that its 8 MiB are no memory until they are used; never destroyed, because faults
// may come late.
constinit Table all_entries;

Table& table() {
  static_assert(std::is_trivially_destructible_v<Table>);
  return all_entries;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  Table& all = table();
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (int i = 0; i < all.used.load(std::memory_order_acquire); ++i) {
    const Entry& entry = all.entries[static_cast<std::size_t>(i)];
    const std::uintptr_t begin = entry.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= entry.end) continue;
    (void)!write(STDERR_FILENO, entry.message.data(), std::strlen(entry.message.data()));
    _exit(1);
  }
  if ((all.before.sa_flags & SA_SIGINFO) != 0 && all.before.sa_sigaction != nullptr) {
    return all.before.sa_sigaction(signal, info, context);
  }
  // As if we were not there: the instruction is tried again and ends the process.
  sigaction(signal, &all.before, nullptr);
}

void install_handler_once() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return sigaction(SIGSEGV, &action, &table().before) == 0;
  }();
  (void)installed;
}

void write_message(Entry& entry, const std::string& unit) {
  const std::string text = format_fault(
      "state", {.what = "a released parameter was used outside its unit",
                .value = "unit " + unit,
                .remedy = "call the unit, register the parameter where it is used, or use "
                          "full_params()"});
  const std::size_t shown = std::min(text.size(), entry.message.size() - 2);
  std::memcpy(entry.message.data(), text.data(), shown);
  entry.message[shown] = '\n';
  entry.message[shown + 1] = '\0';
}

int enter(void* data, std::int64_t bytes, const std::string& unit) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  for (int i = 0; i < kEntries; ++i) {
    Entry& entry = all.entries[static_cast<std::size_t>(i)];
    if (entry.begin != 0) continue;
    write_message(entry, unit);
    entry.end = reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(bytes);
    entry.begin.store(reinterpret_cast<std::uintptr_t>(data), std::memory_order_release);
    all.used = std::max(all.used.load(), i + 1);
    return i;
  }
  return -1;  // too many units to name them all; a fault is a plain one then
}

}  // namespace

ReleasedRange::ReleasedRange(const std::string& unit, std::int64_t bytes)
    : bytes_(std::max<std::int64_t>(bytes, 1)) {
  install_handler_once();
  data_ = mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data_ == MAP_FAILED) {
    throw StorageError({.what = "no address space for a released unit",
                        .value = fmt::format("{}, {} bytes", unit, bytes_)});
  }
  place_ = enter(data_, bytes_, unit);
}

void ReleasedRange::rename(const std::string& unit) {
  if (place_ < 0) return;
  const std::lock_guard lock(table().mutex);
  write_message(table().entries[static_cast<std::size_t>(place_)], unit);
}

ReleasedRange::~ReleasedRange() {
  if (place_ >= 0) {
    Table& all = table();
    const std::lock_guard lock(all.mutex);
    all.entries[static_cast<std::size_t>(place_)].begin = 0;
  }
  munmap(data_, static_cast<std::size_t>(bytes_));
}

}  // namespace zeroshard
