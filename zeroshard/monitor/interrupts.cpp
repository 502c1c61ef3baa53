#include "zeroshard/monitor/interrupts.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include <fmt/core.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

constexpr std::array<int, 5> kSignals{SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};

// What a signal that mpirun hands on stands for.
int meaning_of(int signal) {
  if (signal == SIGUSR2) return SIGINT;
  return signal == SIGALRM ? SIGTERM : signal;
}

// What the handler notes. Atomics and not sig_atomic_t: it may run on any thread, and those
// without a lock are safe in a handler as well.
std::atomic<bool> installed{false};
std::atomic<int> stop_signal{0};
std::atomic<std::int64_t> stop_ns{0};  // when it came; 0: none so far
std::atomic<bool> checkpoint_wanted{false};
std::atomic<std::int64_t> first_interrupt_ns{0};  // 0: none so far
std::atomic<std::int64_t> window_ns{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

// clock_gettime is on POSIX's list of functions for handlers; std::chrono makes no such promise.
std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void note_interrupt() {
  const std::int64_t now_ns = monotonic_ns();
  std::int64_t first_ns = 0;
  if (first_interrupt_ns.compare_exchange_strong(first_ns, now_ns)) return;
  if (now_ns - first_ns < window_ns.load()) return;
  // Blocked while its handler runs, so the default action comes as soon as this returns.
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
}

extern "C" void note_signal(int signal) {
  const int saved_errno = errno;
  if (signal == SIGUSR1) {
    checkpoint_wanted.store(true);
  } else {
    std::int64_t never = 0;
    stop_ns.compare_exchange_strong(never, monotonic_ns());
    int none = 0;
    stop_signal.compare_exchange_strong(none, meaning_of(signal));
    if (signal == SIGINT) note_interrupt();
  }
  errno = saved_errno;
}

void forget_all() {
  stop_signal.store(0);
  stop_ns.store(0);
  checkpoint_wanted.store(false);
  first_interrupt_ns.store(0);
}

}  // namespace

Interrupts::Interrupts(std::chrono::milliseconds repeat_window) {
  if (installed.exchange(true)) {
    throw StateError(
        {.what = "signals are handled already", .remedy = "keep one Interrupts per process"});
  }
  forget_all();
  window_ns.store(std::chrono::nanoseconds(repeat_window).count());
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;  // files and sockets need not know about it
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    former_[i].signal = kSignals[i];
    ::sigaction(kSignals[i], nullptr, &former_[i].action);
    const bool asks_by_itself = kSignals[i] == SIGINT || kSignals[i] == SIGTERM;
    if (asks_by_itself && former_[i].action.sa_handler == SIG_IGN) continue;
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  for (const Former& former : former_) ::sigaction(former.signal, &former.action, nullptr);
  forget_all();
  installed.store(false);
}

int Interrupts::stop_requested() const noexcept { return stop_signal.load(); }

std::optional<std::chrono::nanoseconds> Interrupts::stop_asked_for() const noexcept {
  if (stop_signal.load() == 0) return std::nullopt;
  return std::chrono::nanoseconds(monotonic_ns() - stop_ns.load());
}

int Interrupts::requested() noexcept {
  if (const int signal = stop_requested()) return signal;
  return checkpoint_wanted.exchange(false) ? SIGUSR1 : 0;
}

bool interrupts_training(int signal) noexcept { return signal == SIGINT || signal == SIGTERM; }

int exit_code_of(int signal) noexcept { return 128 + signal; }

std::string interrupt_text(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT asked to stop";
    case SIGTERM: return "SIGTERM asked to stop";
    case SIGUSR1: return "USR1 asked for a checkpoint";
    default: return fmt::format("signal {} came", signal);
  }
}

}  // namespace zeroshard
