// Spans of operations and of units, with ends that the test decides on.
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "zeroshard/engine/traced_communicator.h"
#include "zeroshard/engine/unit_times.h"

namespace zeroshard {
namespace {

using std::chrono::milliseconds;

struct Span {
  std::string name;
  double us = 0.0;
};

std::vector<Span> spans_of(const Trace& trace) {
  rapidjson::Document events;
  const std::string json = fmt::format("[{}]", trace.events_json());
  events.Parse(json.c_str());
  std::vector<Span> spans;
  for (const auto& event : events.GetArray()) {
    if (event["ph"] == "X") {
      spans.push_back({event["name"].GetString(), event["dur"].GetDouble()});
    }
  }
  return spans;
}

std::vector<std::string> names_of(const Trace& trace) {
  std::vector<std::string> names;
  for (const Span& span : spans_of(trace)) names.push_back(span.name);
  return names;
}

// Every operation lasts until `last` is finished.
class ManualCommunicator final : public Communicator {
 public:
  explicit ManualCommunicator(std::shared_ptr<Completion>& last) : last_(last) {}

  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  Handle all_gather_into(const std::vector<GatherPair>&, const std::string&) override {
    return start();
  }
  Handle reduce_scatter_into(const std::vector<ReducePair>&, const ReduceOptions&,
                             const std::string&) override {
    return start();
  }
  Handle all_reduce(const Piece&, ReduceOp, const std::string&) override { return start(); }
  Handle broadcast(const Piece&, int, const std::string&) override { return start(); }
  Handle barrier(const std::string&) override { return start(); }
  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<ManualCommunicator>(last_);
  }

 private:
  Handle start() { return Handle(last_ = std::make_shared<Completion>()); }

  std::shared_ptr<Completion>& last_;
};

struct TracedOperations : testing::Test {
  std::shared_ptr<Completion> last;
  Trace trace;
  std::unique_ptr<Communicator> comm =
      trace_operations(std::make_unique<ManualCommunicator>(last), &trace);
};

TEST_F(TracedOperations, LastUntilTheyEndAndNotUntilSomebodyWaits) {
  const auto begin = Trace::Clock::now();
  const Handle handle = comm->all_gather_into({}, "block.0");
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(spans_of(trace).empty());
  last->finish();
  const std::chrono::duration<double, std::micro> most = Trace::Clock::now() - begin;
  handle.wait();
  const auto spans = spans_of(trace);
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].name, "all_gather block.0");
  EXPECT_GE(spans[0].us, 5000.0);
  EXPECT_LE(spans[0].us, most.count());
}

TEST_F(TracedOperations, HaveTheirNames) {
  const auto sibling = comm->make_sibling();
  const auto end = [&](const Handle& handle) {
    EXPECT_FALSE(handle.done());
    last->finish();
    handle.wait();
  };
  end(comm->all_gather_into({}, "a"));
  end(comm->reduce_scatter_into({}, {}, "b and 2 more"));
  end(comm->all_reduce({}, ReduceOp::max, "c"));
  end(sibling->broadcast({}, 0, "d"));
  end(sibling->barrier("e"));
  EXPECT_EQ(names_of(trace),
            (std::vector<std::string>{"all_gather a", "reduce_scatter b and 2 more", "all_reduce c",
                                      "broadcast d", "barrier e"}));
}

TEST_F(TracedOperations, AreForgottenWithTheirCommunicator) {
  const Handle handle = comm->barrier("left behind");
  const Handle other = [&] {
    const auto held = last;
    Handle next = comm->barrier("in time");
    last->finish();
    last = held;
    return next;
  }();
  comm.reset();
  last->finish();
  handle.wait();
  EXPECT_EQ(names_of(trace), std::vector<std::string>{"barrier in time"});
}

TEST(TracedNowhere, TheCommunicatorIsItself) {
  std::shared_ptr<Completion> last;
  auto comm = std::make_unique<ManualCommunicator>(last);
  const Communicator* const before = comm.get();
  EXPECT_EQ(trace_operations(std::move(comm), nullptr).get(), before);
}

TEST(SpansOfUnits, NestAndEndByUnit) {
  Trace trace;
  UnitTimes spans(&trace);
  spans.begin_forward(0, false);
  spans.begin_forward(1, false);
  spans.begin_forward(0, true);
  spans.end_forward(0, "a");  // the inner one
  spans.end_forward(1, "b");
  spans.end_forward(0, "a");
  spans.end_forward(0, "a");           // none is open
  const auto names = names_of(trace);  // by their beginnings
  EXPECT_EQ(names, (std::vector<std::string>{"forward a", "forward b", "recompute a"}));
}

TEST(SpansOfUnits, OfBackwardBeginWithTheFirstGradient) {
  Trace trace;
  UnitTimes spans(&trace);
  spans.begin_backward(0);
  std::this_thread::sleep_for(milliseconds(5));
  spans.begin_backward(0);
  spans.end_backward(1, "b");
  EXPECT_TRUE(spans_of(trace).empty());
  spans.end_backward(0, "a");
  spans.end_backward(0, "a");
  ASSERT_EQ(names_of(trace), std::vector<std::string>{"backward a"});
  EXPECT_GE(spans_of(trace)[0].us, 5000.0);
}

TEST(SpansOfUnits, ThatAnExceptionEndsAreDropped) {
  Trace trace;
  UnitTimes spans(&trace);
  spans.begin_forward(0, false);
  spans.begin_backward(0);
  spans.drop_forwards();
  spans.drop_backwards();
  spans.end_forward(0, "a");
  spans.end_backward(0, "a");
  EXPECT_TRUE(spans_of(trace).empty());
}

}  // namespace
}  // namespace zeroshard
