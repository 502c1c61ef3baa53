#include "zeroshard/monitor/trace_json.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <fmt/core.h>

#include "zeroshard/base/check.h"
#include "zeroshard/monitor/json_text.h"

namespace zeroshard {
namespace {

constexpr std::array<std::string_view, kLanes> kLaneNames{"compute", "communication", "transfers",
                                                          "optimizer"};
constexpr int kRowsPerLane = 1000;  // thread ids: lane 0 has 1 to 1000, lane 1 the next thousand

// Trace files count in microseconds; the digits behind the point keep the nanoseconds.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns / 1000), std::abs(ns % 1000));
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// The ends of the events that are open on a row, outermost first.
class Row {
 public:
  bool try_place(const TraceEvent& event) {
    while (!open_ends_.empty() && open_ends_.back() <= event.begin_ns) open_ends_.pop_back();
    const std::int64_t end_ns = event.begin_ns + event.duration_ns;
    if (!open_ends_.empty() && end_ns > open_ends_.back()) return false;
    open_ends_.push_back(end_ns);
    return true;
  }

 private:
  std::vector<std::int64_t> open_ends_;
};

class PartWriter {
 public:
  explicit PartWriter(int rank) : rank_(rank) {}

  void add_thread(const std::vector<TraceEvent>& events) {
    std::array<std::vector<const TraceEvent*>, kLanes> lanes;
    for (const TraceEvent& event : events) {
      if (event.is_counter) {
        add_counter(event);
      } else {
        lanes[static_cast<std::size_t>(event.lane)].push_back(&event);
      }
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) add_lane(lane, lanes[lane]);
  }

  void add_stop(std::size_t lost, std::int64_t stopped_ns) {
    if (lost == 0) return;
    add(fmt::format(R"({{"ph":"i","s":"p","name":"the trace is full and stops here",)"
                    R"("pid":{},"tid":1,"ts":{},"args":{{"events lost":{}}}}})",
                    rank_, microseconds(stopped_ns), lost));
  }

  std::string finish() {
    std::string names =
        metadata("process_name", 0, "name", json_string(fmt::format("rank {}", rank_)));
    names += ",\n" + metadata("process_sort_index", 0, "sort_index", std::to_string(rank_));
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (int row = 0; row < rows_[lane]; ++row) {
        const std::string name = row == 0 ? std::string(kLaneNames[lane])
                                          : fmt::format("{} {}", kLaneNames[lane], row + 1);
        const int tid = tid_of(lane, row);
        names += ",\n" + metadata("thread_name", tid, "name", json_string(name));
        names += ",\n" + metadata("thread_sort_index", tid, "sort_index", std::to_string(tid));
      }
    }
    return std::move(names) + events_;
  }

 private:
  static int tid_of(std::size_t lane, int row) {
    return static_cast<int>(lane) * kRowsPerLane + row + 1;
  }

  std::string metadata(std::string_view kind, int tid, std::string_view key,
                       std::string_view json) const {
    return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"{}":{}}}}})", kind,
                       rank_, tid, key, json);
  }

  void add(std::string_view json) {
    events_ += ",\n";
    events_ += json;
  }

  void add_counter(const TraceEvent& event) {
    std::string value;
    append_json_number(value, event.value);
    add(fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"value":{}}}}})",
                    json_string(event.name), rank_, microseconds(event.begin_ns), value));
  }

  void add_lane(std::size_t lane, std::vector<const TraceEvent*>& events) {
    std::sort(events.begin(), events.end(), [](const TraceEvent* a, const TraceEvent* b) {
      return std::pair(a->begin_ns, -a->duration_ns) < std::pair(b->begin_ns, -b->duration_ns);
    });
    std::vector<Row> rows;
    for (const TraceEvent* event : events) {
      const int row = place(rows, *event);
      add(fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{}}})",
                      json_string(event->name), kLaneNames[lane], rank_,
                      tid_of(lane, rows_[lane] + row), microseconds(event->begin_ns),
                      microseconds(event->duration_ns)));
    }
    rows_[lane] += static_cast<int>(rows.size());
  }

  static int place(std::vector<Row>& rows, const TraceEvent& event) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows[row].try_place(event)) return static_cast<int>(row);
    }
    ZS_CHECK(rows.emplace_back().try_place(event));
    return static_cast<int>(rows.size()) - 1;
  }

  int rank_;
  std::string events_;
  std::array<int, kLanes> rows_{};  // used so far, per lane
};

}  // namespace

std::string_view name_of(Lane lane) { return kLaneNames[static_cast<std::size_t>(lane)]; }

std::string trace_events_json(const RankEvents& events) {
  PartWriter part(events.rank);
  for (const auto& thread : events.threads) part.add_thread(thread);
  part.add_stop(events.lost, events.stopped_ns);
  return part.finish();
}

}  // namespace zeroshard
