// The CPU's streams: order, overlap, and what becomes of errors.
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/log.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/device/buffer.h"

namespace zeroshard {
namespace {

using std::chrono::milliseconds;

void fail() { throw std::runtime_error("the work broke"); }

Event recorded(const Stream& stream) {
  Event event;
  event.record(stream);
  return event;
}

TEST(CpuStream, TheCurrentOneIsTheCallingThread) {
  const Stream here = Stream::current(kCpu);
  std::thread::id thread;
  here.run([&] { thread = std::this_thread::get_id(); });
  EXPECT_EQ(thread, std::this_thread::get_id());
  EXPECT_TRUE(recorded(here).done());
  EXPECT_THROW(here.run(fail), std::runtime_error);
  here.synchronize();
}

TEST(CpuStream, WorkIsDoneInOrderOnOneThreadAsTheMakersRank) {
  const RankScope scope(5);
  const Stream side = Stream::make(kCpu);
  std::vector<int> order;
  std::optional<int> rank;
  for (int i = 0; i < 100; ++i) side.run([&order, i] { order.push_back(i); });
  side.run([&] { rank = current_rank(); });
  side.synchronize();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(rank, 5);
}

TEST(CpuStream, TwoStreamsOverlap) {
  const Stream one = Stream::make(kCpu), two = Stream::make(kCpu);
  EXPECT_NE(one.id(), two.id());
  std::atomic<int> met = 0;
  const auto meet = [&] {
    ++met;
    while (met < 2) std::this_thread::yield();
  };
  one.run(meet);
  two.run(meet);
  one.synchronize();
  two.synchronize();
  EXPECT_EQ(met, 2);
}

TEST(CpuStream, TheLastCopyGoesAfterTheWorkIsDone) {
  std::atomic<int> done = 0;
  {
    const Stream side = Stream::make(kCpu);
    const Stream copy = side;
    for (int i = 0; i < 10; ++i) {
      side.run([&] {
        std::this_thread::sleep_for(milliseconds(1));
        ++done;
      });
    }
  }
  EXPECT_EQ(done, 10);
}

TEST(CpuStream, ItsOwnWorkMayHoldTheLastCopy) {
  std::atomic<bool> go = false;
  Event over;
  {
    const Stream side = Stream::make(kCpu);
    side.run([side, &go] {
      while (!go) std::this_thread::yield();
    });
    over.record(side);
  }
  go = true;
  over.synchronize();
}

TEST(CpuStreamErrors, SynchronizeThrowsOnceAndWorkGoesOnAfter) {
  const Stream side = Stream::make(kCpu);
  int ran = 0;
  side.run([&] { ++ran; });
  side.run(fail);
  side.run([&] { ran += 10; });
  EXPECT_THROW(side.synchronize(), std::runtime_error);
  EXPECT_EQ(ran, 1) << "work behind a failure is skipped";
  side.synchronize();
  side.run([&] { ran += 100; });
  side.synchronize();
  EXPECT_EQ(ran, 101);
}

TEST(CpuStreamErrors, EventsBehindTheFailureThrowEachTime) {
  const Stream side = Stream::make(kCpu);
  const Event before = recorded(side);
  side.run(fail);
  const Event behind = recorded(side);
  before.synchronize();
  EXPECT_FALSE(before.failed());
  EXPECT_THROW(behind.synchronize(), std::runtime_error);
  EXPECT_THROW(behind.synchronize(), std::runtime_error);
  EXPECT_TRUE(behind.done());
  EXPECT_TRUE(behind.failed());
  EXPECT_THROW(side.synchronize(), std::runtime_error);
  EXPECT_THROW(behind.synchronize(), std::runtime_error) << "an event never forgets";
  recorded(side).synchronize();
}

TEST(CpuStreamErrors, WhoWaitsForAFailedEventFailsToo) {
  const Stream first = Stream::make(kCpu), second = Stream::make(kCpu);
  first.run(fail);
  const Event behind = recorded(first);
  second.wait(behind);
  bool ran = false;
  second.run([&] { ran = true; });
  EXPECT_THROW(recorded(second).synchronize(), std::runtime_error);
  EXPECT_THROW(second.synchronize(), std::runtime_error);
  EXPECT_FALSE(ran);
  EXPECT_THROW(Stream::current(kCpu).wait(behind), std::runtime_error);
}

TEST(CpuStreamErrors, AFailedStreamStillWaits) {
  const Stream slow = Stream::make(kCpu), side = Stream::make(kCpu);
  std::atomic<bool> over = false;
  slow.run([&] {
    std::this_thread::sleep_for(milliseconds(20));
    over = true;
  });
  side.run(fail);
  side.wait(recorded(slow));
  EXPECT_THROW(side.synchronize(), std::runtime_error);
  EXPECT_TRUE(over) << "work after the cleared failure may count on the event";
}

TEST(CpuStreamErrors, WhoReadsABufferHearsThatItsWriteFailed) {
  const Stream writer = Stream::make(kCpu), reader = Stream::make(kCpu);
  Buffer buffer(kCpu, 16);
  writer.run(fail);
  buffer.wrote(writer);
  EXPECT_THROW(writer.synchronize(), std::runtime_error);
  buffer.wrote(reader);
  EXPECT_THROW(buffer.before_read(Stream::current(kCpu)), std::runtime_error);
}

TEST(CpuStreamErrors, OneThatNobodyHeardOfIsLogged) {
  std::vector<std::string> lines;
  const LogScope log({LogLevel::info, LogSettings::kAllRanks},
                     [&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  {
    const Stream unheard = Stream::make(kCpu), heard = Stream::make(kCpu);
    unheard.run(fail);
    heard.run(fail);
    EXPECT_THROW(recorded(heard).synchronize(), std::runtime_error);
  }
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("the work broke"), std::string::npos);
}

// A random program over streams and events. While it is written down, the model keeps for every
// stream what must be over before its next piece of work; the work itself checks that it is.
TEST(CpuStream, RandomProgramsKeepTheOrderOfASequentialModel) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    constexpr std::size_t kStreams = 5, kSteps = 200;
    using Past = std::vector<bool>;  // by piece of work
    std::vector<Stream> streams;
    for (std::size_t i = 0; i < kStreams; ++i) streams.push_back(Stream::make(kCpu));
    std::vector<Past> past(kStreams, Past(kSteps));
    std::vector<std::pair<Event, Past>> events;
    std::vector<std::atomic<bool>> over(kSteps);
    std::atomic<int> broken = 0;
    for (std::size_t step = 0; step < kSteps; ++step) {
      const std::size_t at = random() % kStreams;
      if (!events.empty() && random() % 2 == 0) {
        const auto& [event, before] = events[random() % events.size()];
        streams[at].wait(event);
        for (std::size_t i = 0; i < kSteps; ++i) past[at][i] = past[at][i] || before[i];
      }
      streams[at].run([&over, &broken, step, before = past[at], nap = random() % 50] {
        for (std::size_t i = 0; i < kSteps; ++i) broken += before[i] && !over[i];
        if (nap < 3) std::this_thread::sleep_for(std::chrono::microseconds(nap * 50));
        over[step] = true;
      });
      past[at][step] = true;
      if (random() % 3 == 0) events.emplace_back(recorded(streams[at]), past[at]);
    }
    for (const Stream& stream : streams) stream.synchronize();
    EXPECT_EQ(broken, 0);
    for (const auto& flag : over) EXPECT_TRUE(flag);
  }
}

}  // namespace
}  // namespace zeroshard
