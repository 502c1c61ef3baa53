// What goes wrong between ranks names itself, on every rank, and everything ends.
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/comm/rank_values.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

using std::chrono::milliseconds;

// Every rank's own view of what happened, and what run_ranks threw in the end.
struct Outcome {
  std::vector<std::string> by_rank;
  std::string thrown;
};

Outcome outcome_of(int ranks, milliseconds timeout,
                   const std::function<void(Communicator&)>& body) {
  Outcome outcome;
  outcome.by_rank.resize(static_cast<std::size_t>(ranks));
  try {
    run_ranks(ranks, {.timeout = timeout}, [&](Communicator& comm) {
      try {
        body(comm);
      } catch (const std::exception& error) {
        outcome.by_rank[static_cast<std::size_t>(comm.rank())] = error.what();
        throw;
      }
    });
  } catch (const std::exception& error) {
    outcome.thrown = error.what();
  }
  return outcome;
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
}

TEST(ThreadFaults, DifferentLabelsAreBothReportedOnEveryRank) {
  const Outcome outcome = outcome_of(3, std::chrono::minutes(1), [](Communicator& comm) {
    comm.barrier(comm.rank() == 1 ? "block.7" : "block.3").wait();
  });
  for (const std::string& seen : outcome.by_rank) {
    expect_contains(seen, "rank 0 barrier \"block.3\" (operation 0)");
    expect_contains(seen, "rank 1 barrier \"block.7\" (operation 0)");
  }
}

TEST(ThreadFaults, DifferentOperationsAndSizesAreReported) {
  const Outcome operations = outcome_of(2, std::chrono::minutes(1), [](Communicator& comm) {
    RankBuffer buffer(4, DType::fp32);
    comm.rank() == 0 ? comm.barrier("x").wait()
                     : comm.all_reduce(buffer.piece(), ReduceOp::sum, "x").wait();
  });
  expect_contains(operations.thrown, "ranks call different operations");
  const Outcome sizes = outcome_of(2, std::chrono::minutes(1), [](Communicator& comm) {
    RankBuffer buffer(4 + comm.rank(), DType::fp32);
    comm.all_reduce(buffer.piece(), ReduceOp::sum, "norm").wait();
  });
  expect_contains(sizes.thrown, "different sizes");
}

TEST(ThreadFaults, AStuckRankIsNamedAfterTheTimeout) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = outcome_of(3, milliseconds(200), [](Communicator& comm) {
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(1000));
    } else {
      comm.barrier("step").wait();
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  expect_contains(outcome.by_rank[0], "barrier \"step\" (operation 0) waited 200 ms for rank 2");
  expect_contains(outcome.by_rank[1], "rank 2");
}

TEST(ThreadFaults, AnExceptionOnOneRankEndsAllWithItsMessage) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = outcome_of(4, std::chrono::minutes(30), [](Communicator& comm) {
    if (comm.rank() == 3) throw std::runtime_error("the data ran out");
    comm.barrier("step").wait();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(outcome.thrown, "the data ran out");
  for (int rank = 0; rank < 3; ++rank) {
    expect_contains(outcome.by_rank[static_cast<std::size_t>(rank)],
                    "rank 3 failed: the data ran out");
  }
}

TEST(ThreadFaults, AfterAFailureOperationsFailAtOnce) {
  const Outcome outcome = outcome_of(2, std::chrono::minutes(30), [](Communicator& comm) {
    Handle first = comm.barrier(comm.rank() == 0 ? "a" : "b");
    Handle second = comm.barrier("c");
    EXPECT_THROW(first.wait(), CommError);
    EXPECT_THROW(first.wait(), CommError) << "waiting again gives the same answer";
    second.wait();
  });
  expect_contains(outcome.thrown, "comm");
}

TEST(ThreadFaults, BadArgumentsAreRefusedBeforeAnythingMoves) {
  run_ranks(2, {}, [](Communicator& comm) {
    RankBuffer buffer(5, DType::fp32);
    EXPECT_THROW(comm.all_gather_into({{buffer.read(), buffer.piece()}}, "x"), InvariantError);
    EXPECT_THROW(comm.reduce_scatter_into({{buffer.read(), buffer.piece()}}, {}, "x"),
                 InvariantError);
    EXPECT_THROW(comm.broadcast(buffer.piece(), 2, "x"), InvariantError);
    RankBuffer bytes(5, DType::uint8);
    EXPECT_THROW(comm.all_reduce(bytes.piece(), ReduceOp::sum, "x"), InvariantError);
    comm.barrier("still usable").wait();
  });
}

}  // namespace
}  // namespace zeroshard
