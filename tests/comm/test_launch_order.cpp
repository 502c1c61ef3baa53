// The order of launches over launches that are noted down: rounds are counted, and orders compared.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/launch_order.h"
#include "zeroshard/comm/ledger.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

using std::chrono::milliseconds;

// What a rank has launched. A launch of "gate" stays open until the test lets it go, so that what
// is submitted meanwhile waits for the next round as a whole.
class Noted {
 public:
  void launch(const std::string& label) {
    if (label == "gate") reached_.set_value(), gate_.get_future().wait();
    const std::lock_guard lock(mutex_);
    labels_.push_back(label);
  }
  void wait_for_gate() { reached_.get_future().wait(); }
  void open_gate() { gate_.set_value(); }
  std::vector<std::string> labels() {
    const std::lock_guard lock(mutex_);
    return labels_;
  }

 private:
  std::promise<void> reached_, gate_;
  std::mutex mutex_;
  std::vector<std::string> labels_;
};

class NotedLaunches final : public Launches {
 public:
  explicit NotedLaunches(Noted& noted) : noted_(noted) {}
  void enclose(const std::function<void()>& body) override { body(); }
  // The operation is over a little later, on a thread of the stream's.
  Event launch(const Call& call, const Event&, LaunchHosts&) override {
    noted_.launch(call.tag.label);
    stream_.run([] { std::this_thread::sleep_for(milliseconds(2)); });
    Event end;
    end.record(stream_);
    return end;
  }
  void check() override {}
  void abort() noexcept override {}

 private:
  Noted& noted_;
  Stream stream_ = Stream::make(kCpu);
};

struct Rank {
  Communicator& hosts;
  LaunchOrder& order;
  Noted& noted;
  TrafficLedger& ledger;

  std::int64_t rounds() const {
    return ledger.entry(Operation::all_gather, "the next launch").calls;
  }
};

// Each rank's order counts what it says to the others, and has so many lanes. The heartbeat stays
// away.
void run_orders(int ranks, int lanes, const std::function<void(Rank&)>& body) {
  run_ranks(ranks, {.timeout = std::chrono::seconds(20)}, [&](Communicator& threads) {
    const auto counted_one = threads.make_sibling();
    TrafficLedger ledger;
    Noted noted;
    LaunchOrder order(count_traffic(*counted_one, ledger), std::make_unique<NotedLaunches>(noted),
                      {.heartbeat = std::chrono::minutes(5)});
    for (int lane = 0; lane < lanes; ++lane) order.add_lane();
    Rank rank{threads, order, noted, ledger};
    body(rank);
    threads.barrier("all have looked").wait();
  });
}

// A lane's operations, numbered as a communicator would.
class Lane {
 public:
  Lane(LaunchOrder& order, int number) : order_(order), number_(number) {}

  Handle submit(const std::string& label) {
    Call call;
    call.tag = {.sequence = next_++, .operation = Operation::broadcast, .label = label};
    const Handle handle(call.completion);
    order_.submit(number_, std::move(call), {});
    return handle;
  }

 private:
  LaunchOrder& order_;
  const int number_;
  std::uint64_t next_ = 0;
};

// Submits while nothing can be launched, then lets it go.
std::vector<Handle> behind_a_gate(Rank& rank, Lane& first,
                                  const std::function<void(std::vector<Handle>&)>& submit) {
  std::vector<Handle> handles{first.submit("gate")};
  rank.noted.wait_for_gate();
  submit(handles);
  rank.noted.open_gate();
  return handles;
}

TEST(LaunchOrder, WhatWaitsInALaneIsLaunchedInOneRound) {
  for (const int waiting : {2, 5, 14}) {
    run_orders(3, 1, [&](Rank& rank) {
      Lane lane(rank.order, 1);
      const auto handles = behind_a_gate(rank, lane, [&](std::vector<Handle>& all) {
        for (int i = 0; i < waiting; ++i) all.push_back(lane.submit("op " + std::to_string(i)));
      });
      for (const Handle& each : handles) each.wait();
      EXPECT_EQ(rank.rounds(), 2) << "one for the gate, one for " << waiting;
    });
  }
}

// More than a message has room for: so many rounds as messages.
TEST(LaunchOrder, ManyThatWaitTakeARoundForEachMessage) {
  run_orders(2, 2, [](Rank& rank) {
    Lane one(rank.order, 1), two(rank.order, 2);
    const auto handles = behind_a_gate(rank, one, [&](std::vector<Handle>& all) {
      for (int i = 0; i < 20; ++i) all.push_back(one.submit("one"));
      for (int i = 0; i < 8; ++i) all.push_back(two.submit("two"));
    });
    for (const Handle& each : handles) each.wait();
    EXPECT_EQ(rank.rounds(), 3) << "one for the gate, two for 28 operations";
  });
}

TEST(LaunchOrder, LanesTakeTurnsHoweverRanksInterleaveThem) {
  run_orders(2, 2, [](Rank& rank) {
    Lane gathers(rank.order, 1), reductions(rank.order, 2);
    const auto handles = behind_a_gate(rank, gathers, [&](std::vector<Handle>& all) {
      const bool gathers_first = rank.hosts.rank() == 0;
      if (!gathers_first) all.push_back(reductions.submit("reduce 0"));
      for (int i = 0; i < 4; ++i) all.push_back(gathers.submit("gather " + std::to_string(i)));
      if (gathers_first) all.push_back(reductions.submit("reduce 0"));
      all.push_back(reductions.submit("reduce 1"));
    });
    for (const Handle& each : handles) each.wait();
    EXPECT_EQ(rank.noted.labels(),
              (std::vector<std::string>{"gate", "gather 0", "reduce 0", "gather 1", "reduce 1",
                                        "gather 2", "gather 3"}));
    EXPECT_EQ(rank.rounds(), 2);
  });
}

// As where nothing is launched ahead: what was called alike is done, and the error names the first
// that was not.
TEST(LaunchOrder, WhatIsBeforeADifferenceEndsWell) {
  run_orders(2, 2, [](Rank& rank) {
    Lane one(rank.order, 1), two(rank.order, 2);
    const auto handles = behind_a_gate(rank, one, [&](std::vector<Handle>& all) {
      for (const char* label : {"block.0", "block.1"}) all.push_back(one.submit(label));
      all.push_back(one.submit(rank.hosts.rank() == 0 ? "block.2" : "block.5"));
      all.push_back(one.submit("block.3"));
      all.push_back(two.submit("sum.0"));
    });
    for (const std::size_t fine : {0U, 1U, 2U, 5U}) EXPECT_NO_THROW(handles.at(fine).wait());
    for (const std::size_t wrong : {3U, 4U}) {
      try {
        handles.at(wrong).wait();
        FAIL() << "operation " << wrong;
      } catch (const CommError& error) {
        EXPECT_STREQ(error.what(),
                     "[comm] ranks call different operations: rank 0 broadcast \"block.2\" "
                     "(operation 3), rank 1 broadcast \"block.5\" (operation 3); every rank must "
                     "use the units in the same order");
      }
    }
    EXPECT_EQ(rank.noted.labels(),
              (std::vector<std::string>{"gate", "block.0", "sum.0", "block.1"}));
    EXPECT_EQ(rank.ledger.entry(Operation::all_gather, "the next launch").calls, 2);
    EXPECT_EQ(rank.ledger.entry(Operation::all_gather, "different launches").calls, 1);
  });
}

// More lanes than a message has room for: a second message, of the front of each.
TEST(LaunchOrder, MoreLanesThanAMessageHasRoomFor) {
  constexpr int kLanes = 18;
  run_orders(2, kLanes, [](Rank& rank) {
    std::vector<Lane> lanes;
    for (int number = 1; number <= kLanes; ++number) lanes.emplace_back(rank.order, number);
    const auto handles = behind_a_gate(rank, lanes[0], [&](std::vector<Handle>& all) {
      for (int i = 0; i < kLanes; ++i) {
        // Ranks bring them in different orders.
        const int at = rank.hosts.rank() == 0 ? i : kLanes - 1 - i;
        all.push_back(lanes[static_cast<std::size_t>(at)].submit("lane " + std::to_string(at)));
      }
    });
    for (const Handle& each : handles) each.wait();
    EXPECT_EQ(rank.rounds(), 2);
    EXPECT_EQ(rank.ledger.entry(Operation::all_gather, "the next launches").calls, 1);
    EXPECT_EQ(rank.noted.labels().size(), kLanes + 1U);
  });
}

}  // namespace
}  // namespace zeroshard
