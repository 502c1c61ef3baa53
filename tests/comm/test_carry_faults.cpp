// What goes wrong below or beside a carrying communicator reaches its handles unchanged, and
// everything ends.
#include <chrono>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "tests/comm/carry_support.h"
#include "tests/comm/rank_values.h"
#include "tests/support/fake_accelerator.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

constexpr Device kAccelerator = FakeAccelerator::device();

class CarryFaults : public testing::Test {
 protected:
  void SetUp() override { FakeAccelerator::install(); }
  void TearDown() override {
    EXPECT_LT(std::chrono::steady_clock::now() - start_, std::chrono::seconds(20));
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string message_of(const Handle& handle) {
  try {
    handle.wait();
    return "no error";
  } catch (const CommError& error) {
    return error.what();
  }
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
}

TEST_F(CarryFaults, RanksOutOfStepAreReportedAsTheInnerBackendDoes) {
  run_carrying_ranks(2, {.part_bytes = 100}, [](Communicator& comm, TrafficLedger&) {
    RankBuffer buffer(1000, DType::fp32, kAccelerator);
    const Handle handle =
        comm.broadcast(buffer.piece(), 0, comm.rank() == 0 ? "block.3" : "block.7");
    const std::string seen = message_of(handle);
    expect_contains(seen, "[comm] ranks call different operations: rank 0 broadcast \"block.3\"");
    expect_contains(seen, "rank 1 broadcast \"block.7\"");
  });
}

TEST_F(CarryFaults, DifferentSizesAreReported) {
  run_carrying_ranks(2, {}, [](Communicator& comm, TrafficLedger&) {
    RankBuffer buffer(10 + comm.rank(), DType::fp32, kAccelerator);
    expect_contains(message_of(comm.all_reduce(buffer.piece(), ReduceOp::sum, "norm")),
                    "different sizes");
  });
}

TEST_F(CarryFaults, LaterCallsFailAtOnceWithTheSameError) {
  run_carrying_ranks(2, {.part_bytes = 100}, [](Communicator& comm, TrafficLedger& inner) {
    RankBuffer device(1000, DType::fp32, kAccelerator), host(10, DType::fp32);
    const Handle bad = comm.broadcast(device.piece(), 0, comm.rank() == 0 ? "a" : "b");
    const Handle queued = comm.all_reduce(host.piece(), ReduceOp::sum, "queued");
    const std::string seen = message_of(bad);
    EXPECT_EQ(message_of(queued), seen);
    const auto before = inner.entries();
    EXPECT_EQ(message_of(comm.broadcast(device.piece(), 0, "later")), seen);
    EXPECT_EQ(message_of(comm.barrier("later")), seen);
    EXPECT_EQ(inner.entries(), before) << "nothing reaches the inner communicator any more";
  });
}

TEST_F(CarryFaults, AnExceptionOnOneRankEndsTheOthersWithItsMessage) {
  const auto body = [](Communicator& comm, TrafficLedger&) {
    RankBuffer buffer(1000, DType::fp32, kAccelerator);
    if (comm.rank() == 2) throw std::runtime_error("the data ran out");
    const Handle handle = comm.broadcast(buffer.piece(), 0, "step");
    expect_contains(message_of(handle), "rank 2 failed: the data ran out");
  };
  EXPECT_THROW(run_carrying_ranks(3, {.part_bytes = 100}, body), std::runtime_error);
}

// Its own call is under way, and nobody will ever come to it: it must not wait.
TEST_F(CarryFaults, ARankThatLeavesByAnExceptionDoesNotWaitForTheOthers) {
  Handle left;
  const auto body = [&](Communicator& comm, TrafficLedger&) {
    if (comm.rank() == 0) return;
    RankBuffer buffer(1000, DType::fp32, kAccelerator);
    left = comm.broadcast(buffer.piece(), 0, "alone");
    throw std::runtime_error("the data ran out");
  };
  EXPECT_THROW(run_carrying_ranks(2, {.part_bytes = 100}, body), std::runtime_error);
  expect_contains(message_of(left), "destroyed before the operation ended");
}

// The mistake is found by the copy itself, on the way down or on the way up.
TEST_F(CarryFaults, AFailedCopyFailsTheCall) {
  const auto comm_of = [](Communicator& comm, TrafficLedger& ledger) {
    return carry_through_host(count_traffic(comm, ledger));
  };
  run_ranks(1, {}, [&](Communicator& thread_comm) {
    TrafficLedger ledger;
    const auto comm = comm_of(thread_comm, ledger);
    float not_device_memory = 0;
    const Piece piece{&not_device_memory, 1, DType::fp32, DeviceKind::cuda};
    EXPECT_THROW(comm->all_reduce(piece, ReduceOp::sum, "x").wait(), InvariantError);
    EXPECT_THROW(comm->barrier("y").wait(), InvariantError);
  });
}

TEST_F(CarryFaults, BadArgumentsAreRefusedBeforeAnythingMoves) {
  run_carrying_ranks(2, {}, [](Communicator& comm, TrafficLedger& inner) {
    RankBuffer buffer(5, DType::fp32, kAccelerator);
    EXPECT_THROW(comm.all_gather_into({{buffer.read(), buffer.piece()}}, "x"), InvariantError);
    EXPECT_THROW(comm.broadcast(buffer.piece(), 2, "x"), InvariantError);
    EXPECT_TRUE(inner.entries().empty());
    comm.barrier("still usable").wait();
  });
}

}  // namespace
}  // namespace zeroshard
