#include "zeroshard/monitor/trace.h"

#include <utility>

#include "zeroshard/base/utf8.h"
#include "zeroshard/monitor/file_writer.h"

namespace zeroshard {
namespace {

std::uint64_t next_trace_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

// The steady clock's reading at the origin: durations come from a clock that never jumps, only the
// zero from the one that hosts agree on.
Trace::Clock::time_point steady_time_of(std::chrono::system_clock::time_point origin) {
  const auto ago = std::chrono::system_clock::now() - origin;
  return Trace::Clock::now() - std::chrono::duration_cast<Trace::Clock::duration>(ago);
}

std::string full_name(std::string_view name, std::string_view detail) {
  std::string text = shortened(name, kTraceNameBytes);
  if (detail.empty()) return text;
  text += ' ';
  text += shortened(detail, kTraceNameBytes);
  return shortened(text, kTraceNameBytes);
}

}  // namespace

struct Trace::ThreadEvents {
  explicit ThreadEvents(std::thread::id owner) : thread(owner) {}

  const std::thread::id thread;
  std::mutex mutex;
  std::vector<TraceEvent> events;  // guarded by mutex
};

Trace::Trace(TraceOptions options)
    : options_(options), id_(next_trace_id()), zero_(steady_time_of(options.origin)) {}

Trace::~Trace() = default;

std::int64_t Trace::since_origin_ns(Clock::time_point time) const noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time - zero_).count();
}

void Trace::add(Lane lane, std::string_view name, std::string_view detail, Clock::time_point begin,
                Clock::time_point end) noexcept {
  const std::int64_t begin_ns = since_origin_ns(begin);
  const std::int64_t duration_ns = end > begin ? since_origin_ns(end) - begin_ns : 0;
  if (kept_.load(std::memory_order_relaxed) >= options_.max_events) return lose(begin_ns);
  try {
    keep({.name = full_name(name, detail),
          .begin_ns = begin_ns,
          .duration_ns = duration_ns,
          .lane = lane});
  } catch (...) {  // no memory
    lose(begin_ns);
  }
}

void Trace::count(std::string_view name, double value) noexcept {
  const std::int64_t now_ns = since_origin_ns(Clock::now());
  if (kept_.load(std::memory_order_relaxed) >= options_.max_events) return lose(now_ns);
  try {
    keep({.name = full_name(name, {}), .begin_ns = now_ns, .value = value, .is_counter = true});
  } catch (...) {
    lose(now_ns);
  }
}

void Trace::keep(TraceEvent event) {
  // Threads that pass the check above at the same time must not overshoot.
  if (kept_.fetch_add(1, std::memory_order_relaxed) >= options_.max_events) {
    return lose(event.begin_ns);
  }
  ThreadEvents& mine = of_this_thread();
  std::lock_guard lock(mine.mutex);
  mine.events.push_back(std::move(event));
}

void Trace::lose(std::int64_t at_ns) noexcept {
  lost_.fetch_add(1, std::memory_order_relaxed);
  std::int64_t earliest = stopped_ns_.load(std::memory_order_relaxed);
  while (at_ns < earliest && !stopped_ns_.compare_exchange_weak(earliest, at_ns)) {
  }
}

Trace::ThreadEvents& Trace::of_this_thread() {
  struct Last {
    std::uint64_t trace = 0;
    ThreadEvents* events = nullptr;
  };
  thread_local Last last;
  if (last.trace == id_) return *last.events;
  const auto self = std::this_thread::get_id();
  std::lock_guard lock(mutex_);
  for (const auto& thread : threads_) {
    if (thread->thread == self) return *(last = {id_, thread.get()}).events;
  }
  threads_.push_back(std::make_unique<ThreadEvents>(self));
  return *(last = {id_, threads_.back().get()}).events;
}

std::string Trace::events_json() const {
  RankEvents events{.rank = options_.rank};
  std::lock_guard lock(mutex_);
  for (const auto& thread : threads_) {
    std::lock_guard thread_lock(thread->mutex);
    events.threads.push_back(thread->events);
  }
  events.lost = lost_.load();
  events.stopped_ns = stopped_ns_.load();
  return trace_events_json(events);
}

void write_trace(const std::string& path, std::span<const std::string> parts) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  bool first = true;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!first) text += ",\n";
    text += part;
    first = false;
  }
  text += "\n]}\n";
  replace_file(path, text);
}

}  // namespace zeroshard
