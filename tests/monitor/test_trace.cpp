// Traces: what is in the file, whatever the threads, overlaps and limits.
#include <map>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/monitor/monitor_support.h"
#include "zeroshard/monitor/trace.h"

namespace zeroshard {
namespace {

using namespace std::chrono_literals;
using Clock = Trace::Clock;

rapidjson::Document parsed(const std::string& text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseFullPrecisionFlag>(text.data(), text.size());
  EXPECT_FALSE(document.HasParseError()) << text;
  return document;
}

rapidjson::Document events_of(const Trace& trace) {
  return parsed("[" + trace.events_json() + "]");
}

std::vector<const rapidjson::Value*> of_phase(const rapidjson::Document& events,
                                              const std::string& phase) {
  std::vector<const rapidjson::Value*> found;
  for (const auto& event : events.GetArray()) {
    if (event["ph"].GetString() == phase) found.push_back(&event);
  }
  return found;
}

std::map<int, std::string> lane_names(const rapidjson::Document& events) {
  std::map<int, std::string> names;
  for (const auto* event : of_phase(events, "M")) {
    if ((*event)["name"] != "thread_name") continue;
    names[(*event)["tid"].GetInt()] = (*event)["args"]["name"].GetString();
  }
  return names;
}

TEST(Trace, HasEventsCountersAndNames) {
  const auto origin = std::chrono::system_clock::now();
  Trace trace({.rank = 3, .origin = origin});
  const auto begin = Clock::now();
  trace.add(Lane::communication, "gather", "blocks.0 \"q\"", begin, begin + 1500ns);
  trace.count("device bytes", 1024);
  const auto events = events_of(trace);

  const auto spans = of_phase(events, "X");
  ASSERT_EQ(spans.size(), 1U);
  const auto& span = *spans[0];
  EXPECT_STREQ(span["name"].GetString(), "gather blocks.0 \"q\"");
  EXPECT_STREQ(span["cat"].GetString(), "communication");
  EXPECT_EQ(span["pid"].GetInt(), 3);
  EXPECT_EQ(span["dur"].GetDouble(), 1.5);
  EXPECT_GE(span["ts"].GetDouble(), 0.0);
  EXPECT_LT(span["ts"].GetDouble(), 60e6);
  EXPECT_EQ(lane_names(events).at(span["tid"].GetInt()), "communication");

  const auto counters = of_phase(events, "C");
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_EQ((*counters[0])["args"]["value"].GetDouble(), 1024.0);
  EXPECT_EQ((*counters[0])["pid"].GetInt(), 3);

  const auto names = of_phase(events, "M");
  EXPECT_STREQ((*names[0])["name"].GetString(), "process_name");
  EXPECT_STREQ((*names[0])["args"]["name"].GetString(), "rank 3");
}

TEST(Trace, TimesCountFromTheSharedOrigin) {
  const auto origin = std::chrono::system_clock::now() - 10s;
  Trace trace({.origin = origin});
  const auto now = Clock::now();
  trace.add(Lane::compute, "late", {}, now, now);
  trace.add(Lane::compute, "before the origin", {}, now - 20s, now - 20s + 1us);
  const auto events = events_of(trace);
  const auto spans = of_phase(events, "X");
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_NEAR((*spans[0])["ts"].GetDouble(), -10e6, 2e6) << "sorted by time";
  EXPECT_NEAR((*spans[1])["ts"].GetDouble(), 10e6, 2e6);
}

TEST(TraceScope, CoversItsLifetime) {
  Trace trace;
  const std::string unit = "blocks.7";
  {
    const Trace::Scope outer(&trace, Lane::optimizer, "step");
    const Trace::Scope inner(&trace, Lane::optimizer, "update", unit);
    std::this_thread::sleep_for(2ms);
  }
  const auto events = events_of(trace);
  const auto spans = of_phase(events, "X");
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_STREQ((*spans[0])["name"].GetString(), "step");
  EXPECT_STREQ((*spans[1])["name"].GetString(), "update blocks.7");
  EXPECT_GE((*spans[1])["dur"].GetDouble(), 2000.0);
  EXPECT_GE((*spans[0])["dur"].GetDouble(), (*spans[1])["dur"].GetDouble());
  EXPECT_EQ((*spans[0])["tid"].GetInt(), (*spans[1])["tid"].GetInt()) << "nested: one row";
}

TEST(TraceScope, WithoutATraceDoesNothing) {
  const Trace::Scope scope(nullptr, Lane::compute, "forward", "blocks.0");
}

TEST(TraceScope, TakesNoTemporaryTexts) {
  using Text = std::string;
  static_assert(!std::is_constructible_v<Trace::Scope, Trace*, Lane, const char*, Text>);
  static_assert(!std::is_constructible_v<Trace::Scope, Trace*, Lane, Text>);
  static_assert(std::is_constructible_v<Trace::Scope, Trace*, Lane, const char*, const Text&>);
}

struct Interval {
  double begin, end;
  std::string name;
};

// Rows are what a viewer draws as one: there, two events are apart or one holds the other.
void expect_rows_nest(const rapidjson::Document& events) {
  std::map<std::pair<int, int>, std::vector<Interval>> rows;
  for (const auto* event : of_phase(events, "X")) {
    const double begin = (*event)["ts"].GetDouble();
    rows[{(*event)["pid"].GetInt(), (*event)["tid"].GetInt()}].push_back(
        {begin, begin + (*event)["dur"].GetDouble(), (*event)["name"].GetString()});
  }
  for (const auto& [row, intervals] : rows) {
    for (const Interval& a : intervals) {
      for (const Interval& b : intervals) {
        const bool apart = a.end <= b.begin || b.end <= a.begin;
        const bool nested =
            (a.begin <= b.begin && b.end <= a.end) || (b.begin <= a.begin && a.end <= b.end);
        ASSERT_TRUE(apart || nested) << a.name << " and " << b.name << " on row " << row.second;
      }
    }
  }
}

TEST(TraceRows, OverlappingEventsGetRowsOfTheirOwn) {
  RankEvents rank{.rank = 1};
  rank.threads.push_back({{.name = "a", .begin_ns = 0, .duration_ns = 10000},
                          {.name = "b", .begin_ns = 5000, .duration_ns = 10000},
                          {.name = "c", .begin_ns = 10000, .duration_ns = 1000}});
  rank.threads.push_back({{.name = "other thread", .begin_ns = 2000, .duration_ns = 1000}});
  const auto events = parsed("[" + trace_events_json(rank) + "]");
  const auto names = lane_names(events);
  std::map<std::string, std::string> row_of;
  for (const auto* event : of_phase(events, "X")) {
    row_of[(*event)["name"].GetString()] = names.at((*event)["tid"].GetInt());
  }
  EXPECT_EQ(row_of["a"], "compute");
  EXPECT_EQ(row_of["b"], "compute 2");
  EXPECT_EQ(row_of["c"], "compute");
  EXPECT_EQ(row_of["other thread"], "compute 3");
}

TEST(TraceRows, RandomEventsAlwaysNest) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    RankEvents rank{.rank = static_cast<int>(seed)};
    rank.threads.resize(1 + random() % 3);
    for (int i = 0; i < 60; ++i) {
      const auto begin = static_cast<std::int64_t>(random() % 50) * 1000;
      rank.threads[random() % rank.threads.size()].push_back(
          {.name = std::to_string(i),
           .begin_ns = begin,
           .duration_ns = static_cast<std::int64_t>(random() % 20) * 1000,
           .lane = static_cast<Lane>(random() % kLanes)});
    }
    const auto events = parsed("[" + trace_events_json(rank) + "]");
    ASSERT_EQ(of_phase(events, "X").size(), 60U);
    SCOPED_TRACE(seed);
    expect_rows_nest(events);
  }
}

TEST(Trace, SaysThatItIsFull) {
  Trace trace({.max_events = 10});
  for (int i = 0; i < 9; ++i) trace.count("bytes", i);
  EXPECT_TRUE(of_phase(events_of(trace), "i").empty());
  for (int i = 0; i < 6; ++i) Trace::Scope(&trace, Lane::compute, "work");
  const auto events = events_of(trace);
  EXPECT_EQ(of_phase(events, "C").size() + of_phase(events, "X").size(), 10U);
  const auto stops = of_phase(events, "i");
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_STREQ((*stops[0])["name"].GetString(), "the trace is full and stops here");
  EXPECT_EQ((*stops[0])["args"]["events lost"].GetInt(), 5);
}

TEST(Trace, LongNamesAreCut) {
  Trace trace;
  trace.count(std::string(10000, 'x'), 1);
  EXPECT_LT(trace.events_json().size(), 1000U);
}

// For ThreadSanitizer: threads record, come and go, while another reads; two traces in turns.
TEST(Trace, ManyThreadsAtOnce) {
  constexpr int kThreads = 6, kEvents = 500;
  Trace trace({.rank = 0}), other({.rank = 1, .max_events = 700});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEvents; ++i) {
        const Trace::Scope scope(&trace, static_cast<Lane>(t % 4), "work");
        if (i % 2 == 0) other.count("bytes", i);
      }
    });
  }
  for (int i = 0; i < 5; ++i) expect_rows_nest(events_of(trace));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(of_phase(events_of(trace), "X").size(), std::size_t{kThreads * kEvents});
  const auto others = events_of(other);
  EXPECT_EQ(of_phase(others, "C").size(), 700U);
  EXPECT_EQ((*of_phase(others, "i").at(0))["args"]["events lost"].GetInt(), 800);
}

TEST(Trace, ANewTraceAtAnOldAddressStartsEmpty) {
  for (int i = 0; i < 3; ++i) {
    Trace trace;
    trace.count("bytes", i);
    ASSERT_EQ(of_phase(events_of(trace), "C").size(), 1U);
  }
}

TEST(WriteTrace, JoinsTheRanks) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> parts;
  for (int rank = 0; rank < 3; ++rank) {
    Trace trace({.rank = rank});
    { const Trace::Scope scope(&trace, Lane::compute, "forward"); }
    parts.push_back(trace.events_json());
    parts.emplace_back();  // a rank that has nothing to say
  }
  write_trace(folder / "trace.json", parts);
  const auto file = parsed(testing::read_text(folder / "trace.json"));
  std::map<int, int> spans;
  for (const auto& event : file["traceEvents"].GetArray()) {
    if (event["ph"] == "X") ++spans[event["pid"].GetInt()];
  }
  EXPECT_EQ(spans, (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_EQ(testing::names_in(folder.path()), std::vector<std::string>{"trace.json"});
}

TEST(WriteTrace, OfNothingIsStillAFile) {
  const testing::TemporaryFolder folder;
  write_trace(folder / "trace.json", {});
  EXPECT_TRUE(parsed(testing::read_text(folder / "trace.json"))["traceEvents"].Empty());
}

TEST(WriteTrace, AFullDiskIsOneSentence) {
  const std::string error = testing::storage_error_of([] { write_trace("/dev/full", {}); });
  EXPECT_NE(error.find("No space left on device"), std::string::npos) << error;
}

}  // namespace
}  // namespace zeroshard
