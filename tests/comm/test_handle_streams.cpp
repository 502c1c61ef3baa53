// Streams that wait for operations: their work comes after, and the host goes on where it can.
#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/comm/carry_support.h"
#include "tests/comm/contract.h"
#include "tests/comm/rank_values.h"
#include "tests/support/fake_accelerator.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

using std::chrono::milliseconds;

constexpr Device kDevice = FakeAccelerator::device();

class HandleStreams : public testing::Test {
 protected:
  void SetUp() override { FakeAccelerator::install(); }

  const std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  const Handle handle{completion};

  // A point of an accelerator's stream that is reached when `go` is set.
  static Event held_up_by(const Stream& stream, const std::atomic<bool>& go) {
    FakeAccelerator::install().launch(stream, [&go] {
      while (!go) std::this_thread::yield();
    });
    Event event;
    event.record(stream);
    return event;
  }
};

TEST_F(HandleStreams, TheHostGoesOnOnceTheLastCopyIsIssued) {
  const Stream up = Stream::make(kDevice), compute = Stream::make(kDevice);
  std::atomic<bool> go = false, used = false;
  completion->finish_behind(held_up_by(up, go));
  handle.wait(compute);
  FakeAccelerator::install().launch(compute, [&] { used = true; });
  EXPECT_TRUE(handle.issued_within(milliseconds(0)));
  EXPECT_FALSE(handle.done());
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(used) << "the stream waits";
  go = true;
  compute.synchronize();
  EXPECT_TRUE(used);
  EXPECT_TRUE(handle.done());
}

TEST_F(HandleStreams, TheHostWaitsForTheLastCopyWhereItAsksForItself) {
  const Stream up = Stream::make(kDevice);
  std::atomic<bool> go = false;
  completion->finish_behind(held_up_by(up, go));
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(20));
    go = true;
  });
  handle.wait();
  EXPECT_TRUE(go);
  later.join();
}

TEST_F(HandleStreams, AnAcceleratorsStreamWaitsForAHostThreadOnTheHost) {
  std::atomic<bool> finished = false;
  std::thread backend([&] {
    std::this_thread::sleep_for(milliseconds(20));
    finished = true;
    completion->finish();
  });
  handle.wait(Stream::make(kDevice));
  EXPECT_TRUE(finished);
  backend.join();
}

TEST_F(HandleStreams, ASideStreamOfTheCpuWaitsInItsOwnThread) {
  const Stream side = Stream::make(kCpu);
  std::atomic<bool> used = false;
  handle.wait(side);
  side.run([&] { used = true; });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(used);
  completion->finish();
  side.synchronize();
  EXPECT_TRUE(used);
}

TEST_F(HandleStreams, AnErrorIsThrownToWhoeverWaits) {
  const Stream side = Stream::make(kCpu);
  handle.wait(side);
  completion->finish(std::make_exception_ptr(std::runtime_error("rank 1 is gone")));
  EXPECT_THROW(handle.wait(), std::runtime_error);
  EXPECT_THROW(handle.wait(Stream::make(kDevice)), std::runtime_error);
  EXPECT_THROW(handle.wait(Stream::current(kCpu)), std::runtime_error);
  EXPECT_THROW(side.synchronize(), std::runtime_error);
}

TEST_F(HandleStreams, AnErrorOfTheLastCopyFailsTheStreamThatWaits) {
  const Stream up = Stream::make(kDevice), compute = Stream::make(kDevice);
  FakeAccelerator::install().launch(up, [] { throw std::runtime_error("the copy broke"); });
  Event last;
  last.record(up);
  completion->finish_behind(last);
  handle.wait(compute);
  EXPECT_THROW(compute.synchronize(), std::runtime_error);
  EXPECT_THROW(handle.wait(), std::runtime_error);
  EXPECT_THROW(up.synchronize(), std::runtime_error);
}

TEST_F(HandleStreams, AnExceptionThatTakesTheHandleWaitsForTheLastCopyOnly) {
  const Stream up = Stream::make(kDevice);
  std::atomic<bool> go = false, gave_up = false;
  completion->set_abandon([&] { gave_up = true; });
  completion->finish_behind(held_up_by(up, go));
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(20));
    go = true;
  });
  try {
    const Handle mine(completion);
    throw std::runtime_error("the data ran out");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(go) << "the memory may go now";
  EXPECT_FALSE(gave_up) << "the operation is over as far as the communicator is concerned";
  later.join();
}

TEST_F(HandleStreams, StepsWithoutAWaitOfTheHostHaveTheSameNumbers) {
  for (const int slots : {1, 3}) {
    run_carrying_ranks(2, {.part_bytes = 256, .slots = slots},
                       [](Communicator& comm, TrafficLedger&) {
                         for (int i = 0; i < 5; ++i) contract::steps_without_waiting(comm, kDevice);
                       });
  }
}

// Of all copies the last ones up are found to be wrong: the handle has been issued by then.
TEST_F(HandleStreams, AFailedCopyUpFailsTheNextCallsOfTheCommunicator) {
  run_carrying_ranks(1, {}, [](Communicator& comm, TrafficLedger&) {
    const RankBuffer in(10, DType::fp32, kDevice);
    float not_device_memory[10] = {};
    const Piece out{not_device_memory, 10, DType::fp32, DeviceKind::cuda};
    const Handle gathered = comm.all_gather_into({{in.read(), out}}, "gather");
    EXPECT_THROW(gathered.wait(), InvariantError);
    EXPECT_THROW(comm.barrier("next").wait(), InvariantError);
    RankBuffer good(10, DType::fp32, kDevice);
    EXPECT_THROW(comm.all_reduce(good.piece(), ReduceOp::sum, "later").wait(), InvariantError);
  });
}

}  // namespace
}  // namespace zeroshard
