// Events of one rank as Chrome's trace-event JSON, which Perfetto and chrome://tracing read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

enum class Lane : std::uint8_t { compute, communication, transfers, optimizer };
inline constexpr std::size_t kLanes = 4;

std::string_view name_of(Lane lane);

struct TraceEvent {
  std::string name;
  std::int64_t begin_ns = 0;
  std::int64_t duration_ns = 0;
  double value = 0;  // of a counter
  Lane lane = Lane::compute;
  bool is_counter = false;
};

struct RankEvents {
  int rank = 0;
  std::vector<std::vector<TraceEvent>> threads;  // what each thread recorded
  std::size_t lost = 0;                          // not kept, since the trace was full
  std::int64_t stopped_ns = 0;                   // when the first was lost
};

// Comma-separated JSON objects, one per line: names of the process and its lanes, then the events.
//
// The format wants the events of one row nested or apart. Those of different threads, and those
// that overlap (asynchronous transfers), therefore get rows of their own: `communication`,
// `communication 2`, ...
std::string trace_events_json(const RankEvents& events);

}  // namespace zeroshard
