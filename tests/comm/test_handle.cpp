// Who wants to know of an operation's end is told once, before those who wait.
#include <atomic>
#include <exception>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/handle.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

TEST(WhenDone, IsCalledAtTheEndAndOnce) {
  const auto completion = std::make_shared<Completion>();
  const Handle handle(completion);
  int calls = 0;
  handle.when_done([&] { ++calls; });
  EXPECT_EQ(calls, 0);
  completion->finish();
  EXPECT_EQ(calls, 1);
  handle.wait();
  EXPECT_EQ(calls, 1);
}

TEST(WhenDone, IsCalledAfterAFailureToo) {
  const auto completion = std::make_shared<Completion>();
  const Handle handle(completion);
  int calls = 0;
  handle.when_done([&] { ++calls; });
  completion->finish(std::make_exception_ptr(std::runtime_error("broken")));
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(handle.wait(), std::runtime_error);
}

TEST(WhenDone, IsCalledAtOnceWhereItHasEnded) {
  const auto completion = std::make_shared<Completion>();
  completion->finish();
  int calls = 0;
  Handle(completion).when_done([&] { ++calls; });
  Handle(completion).when_done([&] { ++calls; });
  Handle().when_done([&] { ++calls; });
  EXPECT_EQ(calls, 3);
}

TEST(WhenDone, HasRoomForOne) {
  const auto completion = std::make_shared<Completion>();
  const Handle handle(completion);
  int calls = 0;
  handle.when_done([&] { calls += 1; });
  EXPECT_THROW(handle.when_done([&] { calls += 10; }), InvariantError);
  completion->finish();
  EXPECT_EQ(calls, 1);
}

// An operation that never ends keeps nothing alive longer than itself.
TEST(WhenDone, LetsGoOfWhatItHolds) {
  const auto held = std::make_shared<int>(1);
  auto completion = std::make_shared<Completion>();
  completion->when_done([held] {});
  EXPECT_EQ(held.use_count(), 2);
  completion->finish();
  EXPECT_EQ(held.use_count(), 1);
  completion = std::make_shared<Completion>();
  completion->when_done([held] {});
  completion.reset();
  EXPECT_EQ(held.use_count(), 1);
}

// For ThreadSanitizer: the end comes before, at and after the moment it is asked for. What was done
// then is visible to who waits, without more ado.
TEST(WhenDone, MeetsTheEndInAnyOrder) {
  for (int round = 0; round < 500; ++round) {
    const auto completion = std::make_shared<Completion>();
    std::atomic<int> ready{0};
    int told = 0;
    const auto both_ready = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    std::thread backend([&] {
      both_ready();
      completion->finish();
    });
    both_ready();
    const Handle handle(completion);
    handle.when_done([&] { ++told; });
    handle.wait();
    EXPECT_EQ(told, 1);
    backend.join();
    EXPECT_EQ(told, 1);
  }
}

// Many operations under way, on the backend's own threads.
TEST(WhenDone, IsToldByABackend) {
  constexpr int kOperations = 200;
  run_ranks(2, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    std::vector<int> told(kOperations, 0);
    std::vector<Handle> handles;
    for (int i = 0; i < kOperations; ++i) {
      handles.push_back(comm.barrier("step"));
      handles.back().when_done([&told, i] { ++told[static_cast<std::size_t>(i)]; });
    }
    for (const Handle& handle : handles) handle.wait();
    EXPECT_EQ(told, std::vector<int>(kOperations, 1));
  });
}

}  // namespace
}  // namespace zeroshard
