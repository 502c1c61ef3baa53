// What a trace says of a training: each unit's computing, every operation, and nothing changes.
#include <algorithm>
#include <map>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/engine_account/account_support.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/monitor/trace.h"

namespace zeroshard::test {
namespace {

constexpr int kRanks = 2;
constexpr std::size_t kSteps = 3;

struct Span {
  double begin = 0.0;  // microseconds
  double end = 0.0;
};

// One rank's trace, and what it is to be compared with.
struct TracedRun {
  std::map<std::string, std::vector<Span>> spans = {};  // by lane and name, in order
  std::vector<double> gathered = {};                    // the counter's values
  TrafficLedger::Entries traffic = {};
  std::vector<std::string> called = {};  // units that have a call point
  std::vector<std::string> units = {};   // all
  std::int64_t largest_unit_bytes = 0;
  std::vector<double> states = {};
};

void read_events(const std::string& json, TracedRun& run) {
  rapidjson::Document events;
  events.Parse<rapidjson::kParseFullPrecisionFlag>(("[" + json + "]").c_str());
  ASSERT_FALSE(events.HasParseError()) << json;
  for (const auto& event : events.GetArray()) {
    const std::string phase = event["ph"].GetString();
    const std::string name = event["name"].GetString();
    if (phase == "C" && name == "gathered bytes") {
      run.gathered.push_back(event["args"]["value"].GetDouble());
    }
    if (phase != "X") continue;
    const double begin = event["ts"].GetDouble();
    EXPECT_GE(event["dur"].GetDouble(), 0.0);
    run.spans[event["cat"].GetString() + (": " + name)].push_back(
        {begin, begin + event["dur"].GetDouble()});
  }
  for (auto& [name, spans] : run.spans) {
    std::ranges::sort(spans, {}, &Span::begin);
  }
}

void read_units(const Core& core, TracedRun& run) {
  for (std::size_t i = 0; i < core.units(); ++i) {
    run.units.push_back(core.unit(i).name());
    if (!core.unit(i).has_call_point()) continue;
    run.called.push_back(core.unit(i).name());
    run.largest_unit_bytes = std::max(run.largest_unit_bytes, core.unit(i).gathered_bytes());
  }
}

TracedRun train_traced(RunPlan plan, Communicator& comm, bool traced) {
  at::set_num_threads(1);
  TracedRun run;
  zeroshard::Trace trace({.rank = comm.rank()});
  plan.options.trace = traced ? &trace : nullptr;
  Model model(plan.shape);
  set_parameters(*model, 1);
  Engine engine(model, plan.options, comm);
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(train_step(plan, model, engine, static_cast<int>(step)).applied);
  }
  engine.finish();
  run.traffic = engine.core().traffic().entries();
  read_events(trace.events_json(), run);
  read_units(engine.core(), run);
  run.states = states_of(engine);
  return run;
}

std::vector<TracedRun> train_traced(const RunPlan& plan, bool traced = true) {
  std::vector<TracedRun> runs(kRanks);
  run_ranks(kRanks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    runs[static_cast<std::size_t>(comm.rank())] = train_traced(plan, comm, traced);
  });
  return runs;
}

const std::vector<Span>& spans_of(const TracedRun& run, const std::string& name) {
  static const std::vector<Span> kNone;
  const auto found = run.spans.find(name);
  return found == run.spans.end() ? kNone : found->second;
}

// Microseconds with three digits are nanoseconds; sums of them are rounded.
void expect_ends_before(const Span& first, const Span& second, const std::string& what) {
  EXPECT_LE(first.end, second.begin + 1e-4) << what;
}

class TracedTraining : public testing::TestWithParam<int> {
 protected:
  bool sharded() const { return GetParam() == 3; }
};

TEST_P(TracedTraining, HasForwardAndBackwardOfEveryUnit) {
  for (const TracedRun& run : train_traced(small_plan(GetParam(), kRanks))) {
    EXPECT_EQ(run.called.size(), 5U);
    for (const std::string& unit : run.called) {
      const auto forwards = spans_of(run, "compute: forward " + unit);
      const auto backwards = spans_of(run, "compute: backward " + unit);
      ASSERT_EQ(forwards.size(), kSteps) << unit;
      ASSERT_EQ(backwards.size(), kSteps) << unit;
      for (std::size_t step = 0; step < kSteps; ++step) {
        EXPECT_GT(forwards[step].end, forwards[step].begin) << unit;
        EXPECT_GT(backwards[step].end, backwards[step].begin) << unit;
        expect_ends_before(forwards[step], backwards[step], unit);
        if (step > 0) expect_ends_before(backwards[step - 1], forwards[step], unit);
      }
      EXPECT_TRUE(spans_of(run, "compute: recompute " + unit).empty());
    }
  }
}

TEST_P(TracedTraining, HasEveryOperationThatTheLedgerCounts) {
  for (const TracedRun& run : train_traced(small_plan(GetParam(), kRanks))) {
    std::size_t operations = 0;
    for (const auto& [key, entry] : run.traffic) {
      const std::string name = std::string(name_of(key.first)) + " " + key.second;
      EXPECT_EQ(spans_of(run, "communication: " + name).size(),
                static_cast<std::size_t>(entry.calls))
          << name;
      operations += static_cast<std::size_t>(entry.calls);
    }
    std::size_t spans = 0;
    for (const auto& [name, all] : run.spans) {
      spans += name.starts_with("communication: ") ? all.size() : 0;
    }
    EXPECT_EQ(spans, operations);
    EXPECT_EQ(spans_of(run, "communication: all_gather norm").size(), kSteps);
  }
}

// An operation's span ends with it, so before what needs its result.
TEST(TracedGathers, AreOverBeforeTheUnitComputes) {
  for (const TracedRun& run : train_traced(small_plan(3, kRanks))) {
    for (const std::string& unit : run.called) {
      const auto gathers = spans_of(run, "communication: all_gather " + unit);
      ASSERT_EQ(gathers.size(), 2 * kSteps) << unit;
      for (std::size_t step = 0; step < kSteps; ++step) {
        expect_ends_before(gathers[2 * step], spans_of(run, "compute: forward " + unit)[step],
                           unit);
        expect_ends_before(gathers[2 * step + 1], spans_of(run, "compute: backward " + unit)[step],
                           unit);
      }
    }
  }
}

TEST_P(TracedTraining, HasTheStep) {
  for (const TracedRun& run : train_traced(small_plan(GetParam(), kRanks))) {
    const auto norms = spans_of(run, "optimizer: norm");
    ASSERT_EQ(norms.size(), kSteps);
    for (const std::string& unit : run.units) {
      const auto updates = spans_of(run, "optimizer: update " + unit);
      ASSERT_EQ(updates.size(), kSteps) << unit;
      for (std::size_t step = 0; step < kSteps; ++step) {
        expect_ends_before(norms[step], updates[step], unit);
      }
    }
    // Where G is replicated, it is gathered as well.
    EXPECT_EQ(spans_of(run, "compute: wait for reductions").size(),
              sharded() ? kSteps : 2 * kSteps);
  }
}

TEST_P(TracedTraining, CountsTheBytesOfWhatIsGathered) {
  for (const TracedRun& run : train_traced(small_plan(GetParam(), kRanks))) {
    if (!sharded()) {
      EXPECT_TRUE(run.gathered.empty());
      continue;
    }
    // Up and down, twice in a step, for each unit; in the end nothing is held.
    ASSERT_EQ(run.gathered.size(), 4 * kSteps * run.called.size());
    EXPECT_EQ(run.gathered.back(), 0.0);
    EXPECT_GE(*std::ranges::min_element(run.gathered), 0.0);
    EXPECT_GE(*std::ranges::max_element(run.gathered), static_cast<double>(run.largest_unit_bytes));
  }
}

TEST_P(TracedTraining, ShowsWhatIsComputedAgain) {
  RunPlan plan = small_plan(GetParam(), kRanks);
  plan.shape.checkpoint = true;
  for (const TracedRun& run : train_traced(plan)) {
    std::size_t computed_again = 0;
    for (const std::string& unit : run.called) {
      const auto again = spans_of(run, "compute: recompute " + unit);
      if (again.empty()) continue;
      ++computed_again;
      const auto backwards = spans_of(run, "compute: backward " + unit);
      ASSERT_EQ(again.size(), kSteps) << unit;
      ASSERT_EQ(backwards.size(), kSteps) << unit;
      EXPECT_EQ(spans_of(run, "compute: forward " + unit).size(), kSteps) << unit;
      for (std::size_t step = 0; step < kSteps; ++step) {
        EXPECT_GE(again[step].begin, backwards[step].begin) << unit;
        EXPECT_LE(again[step].end, backwards[step].end) << unit;
      }
    }
    EXPECT_EQ(computed_again, static_cast<std::size_t>(plan.shape.blocks));
  }
}

TEST_P(TracedTraining, ChangesNoBit) {
  const RunPlan plan = small_plan(GetParam(), kRanks, DType::bf16, 2);
  const auto traced = train_traced(plan), plain = train_traced(plan, /*traced=*/false);
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_FALSE(traced[rank].spans.empty());
    EXPECT_TRUE(plain[rank].spans.empty());
    EXPECT_EQ(traced[rank].states, plain[rank].states);
    EXPECT_EQ(traced[rank].traffic, plain[rank].traffic);
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, TracedTraining, testing::Values(0, 3));

}  // namespace
}  // namespace zeroshard::test
