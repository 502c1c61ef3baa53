// What ran when, for Perfetto (ui.perfetto.dev) or chrome://tracing: one process per rank, one lane
// each for compute, communication, transfers and the optimizer.
//
//   Trace::Scope scope(trace, Lane::communication, "gather", unit.name());  // trace may be null
//
// Ranks collect in memory; at the end each hands events_json() to rank 0, which calls write_trace.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "zeroshard/monitor/trace_json.h"

namespace zeroshard {

struct TraceOptions {
  int rank = 0;
  // Time zero. Ranks that are given the same moment share one time line, as well as the clocks of
  // their hosts agree.
  std::chrono::system_clock::time_point origin = std::chrono::system_clock::now();
  // Then the trace is full: later events are counted and not kept, and the file says so. An event
  // is 64 bytes and its name, of which at most kTraceNameBytes are kept: this many are 30 to 100
  // MB.
  std::size_t max_events = 500'000;
};

inline constexpr std::size_t kTraceNameBytes = 120;

// Safe from any thread: each has its own list, whose lock only events_json() ever contends for.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  class Scope;

  explicit Trace(TraceOptions options = {});
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Something that ran from `begin` to `end`, maybe on another thread or on a device. `detail`, if
  // any, follows the name after a space. Never throws: without memory the event is lost.
  void add(Lane lane, std::string_view name, std::string_view detail, Clock::time_point begin,
           Clock::time_point end) noexcept;

  // A curve, such as bytes held: from now on it has this value.
  void count(std::string_view name, double value) noexcept;

  // This rank's part of the file: comma-separated JSON objects.
  std::string events_json() const;

 private:
  struct ThreadEvents;

  void keep(TraceEvent event);
  void lose(std::int64_t at_ns) noexcept;
  ThreadEvents& of_this_thread();
  std::int64_t since_origin_ns(Clock::time_point time) const noexcept;

  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  const TraceOptions options_;
  const std::uint64_t id_;  // never used again in this process, unlike an address
  const Clock::time_point zero_;
  std::atomic<std::size_t> kept_{0};
  std::atomic<std::size_t> lost_{0};
  std::atomic<std::int64_t> stopped_ns_{kNever};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadEvents>> threads_;  // guarded by mutex_; in order of first use
};

// Adds an event from its construction to its destruction. Without a trace it costs one branch. The
// texts are not copied before the end, so they must outlive the scope.
class Trace::Scope {
 public:
  Scope(Trace* trace, Lane lane, std::string_view name, std::string_view detail = {}) noexcept
      : trace_(trace) {
    if (trace == nullptr) return;
    lane_ = lane;
    name_ = name;
    detail_ = detail;
    begin_ = Clock::now();
  }
  // A temporary string would be gone before the scope is.
  template <std::same_as<std::string> T>
  Scope(Trace*, Lane, std::string_view, T&&) = delete;
  template <std::same_as<std::string> T>
  Scope(Trace*, Lane, T&&, std::string_view = {}) = delete;
  ~Scope() {
    if (trace_ != nullptr) trace_->add(lane_, name_, detail_, begin_, Clock::now());
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Trace* trace_;
  Lane lane_{};
  std::string_view name_;
  std::string_view detail_;
  Clock::time_point begin_;
};

// The whole file from the parts of all ranks; written aside, then renamed.
void write_trace(const std::string& path, std::span<const std::string> parts);

}  // namespace zeroshard
