// Memory that streams share: order, and what it costs. Streams stall at random.
#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/fake_accelerator.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/stream_uses.h"

namespace zeroshard {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

struct UsesCase {
  const char* name;
  Device device;
};

void PrintTo(const UsesCase& uses_case, std::ostream* out) { *out << uses_case.name; }

class UsesOn : public testing::TestWithParam<UsesCase> {
 protected:
  void SetUp() override { FakeAccelerator::install(); }

  static Stream side() { return Stream::make(GetParam().device); }
  // Work in the stream's order; returns at once.
  static void give(const Stream& stream, std::function<void()> work) {
    if (stream.device() == kCpu) return stream.run(std::move(work));
    FakeAccelerator::install().launch(stream, std::move(work));
  }
};

INSTANTIATE_TEST_SUITE_P(Streams, UsesOn,
                         testing::Values(UsesCase{"cpu", kCpu},
                                         UsesCase{"fake", FakeAccelerator::device()}));

// Each use is announced before its work: the event must cover what came after the announcement.
TEST_P(UsesOn, AReaderWaitsForTheWorkOfAWriterThatWasAnnouncedBefore) {
  const Stream writer = side(), reader = side();
  StreamUses uses;
  int value = 0, seen = 0;
  uses.before_write(writer);
  give(writer, [&] {
    std::this_thread::sleep_for(milliseconds(20));
    value = 1;
  });
  uses.before_read(reader);
  give(reader, [&] { seen = value; });
  uses.wait_until_over();
  EXPECT_EQ(seen, 1);
}

TEST_P(UsesOn, AWriterWaitsForAllReaders) {
  const std::vector<Stream> readers{side(), side(), side()};
  const Stream writer = side();
  StreamUses uses;
  std::atomic<int> value = 1, sum = 0;
  for (const Stream& reader : readers) {
    uses.before_read(reader);
    give(reader, [&] {
      std::this_thread::sleep_for(milliseconds(10));
      sum += value;
    });
  }
  uses.before_write(writer);
  give(writer, [&] { value = 100; });
  uses.wait_until_over();
  EXPECT_EQ(sum, 3);
}

TEST_P(UsesOn, TheHostWaitsWhereItIsTheReader) {
  const Stream writer = side();
  StreamUses uses;
  std::atomic<bool> over = false;
  uses.before_write(writer);
  give(writer, [&] {
    std::this_thread::sleep_for(milliseconds(20));
    over = true;
  });
  uses.before_read(Stream::current(kCpu));
  EXPECT_TRUE(over);
}

TEST_P(UsesOn, AFailedWriteIsHeardOf) {
  const Stream writer = side();
  StreamUses uses;
  uses.before_write(writer);
  give(writer, [] { throw std::runtime_error("the kernel broke"); });
  EXPECT_THROW(uses.before_read(Stream::current(kCpu)), std::runtime_error);
  EXPECT_THROW(uses.before_write(Stream::current(kCpu)), std::runtime_error) << "it stays";
  EXPECT_THROW(writer.synchronize(), std::runtime_error);
  uses.wait_until_over();
}

// Random readers and writers on streams that stall: every reader sees the last value written before
// it, every writer finds the value that it replaces.
TEST_P(UsesOn, RandomUsesEqualASequentialRun) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<Stream> streams;
    for (int i = 0; i < 7; ++i) streams.push_back(side());
    StreamUses uses;
    int value = 0;
    std::atomic<int> wrong = 0;
    for (int step = 0, expected = 0; step < 150; ++step) {
      const Stream& stream = streams[random() % streams.size()];
      const microseconds nap(random() % 8 == 0 ? random() % 200 : 0);
      if (random() % 3 > 0) {
        uses.before_read(stream);
        give(stream, [&, nap, expected] {
          std::this_thread::sleep_for(nap);
          wrong += value != expected;
        });
      } else {
        uses.before_write(stream);
        give(stream, [&, nap, expected, step] {
          wrong += value != expected;
          std::this_thread::sleep_for(nap);
          value = step;
        });
        expected = step;
      }
    }
    uses.wait_until_over();
    EXPECT_EQ(wrong, 0);
  }
}

// What the engine does in every unit of every step.
TEST(StreamUses, OneStreamRecordsNothing) {
  FakeAccelerator& fake = FakeAccelerator::install();
  const Stream compute = Stream::make(fake.device()), other = Stream::make(fake.device());
  StreamUses uses;
  Buffer buffer(fake.device(), 64);
  std::int64_t before = 0;
  compute.run([&] {
    buffer.before_write(compute);
    buffer.wrote(compute);
    before = fake.recorded();
    for (int i = 0; i < 100; ++i) {
      uses.before_write(compute);
      uses.before_read(compute);
      buffer.before_write(compute);
      buffer.wrote(compute);
      buffer.before_read(compute);
      buffer.read(compute);
    }
  });
  EXPECT_EQ(fake.recorded(), before);
  uses.before_read(other);
  EXPECT_EQ(fake.recorded(), before + 1) << "once, when another stream comes";
  uses.before_read(other);
  EXPECT_EQ(fake.recorded(), before + 1);
}

// A ring of slots works by this: the next user of a slot does not wait for the slots after it.
TEST(StreamUses, ABufferReadBesideIsFreeWhenItsOwnReaderIsDone) {
  FakeAccelerator& fake = FakeAccelerator::install();
  const Stream side = Stream::make(fake.device());
  Buffer slot = Buffer::pinned(fake.device(), 64);
  fake.launch(side, [] {});
  slot.read(side);
  std::atomic<bool> may_end = false;
  fake.launch(side, [&] {
    while (!may_end) std::this_thread::yield();
  });
  slot.before_write(Stream::current(kCpu));  // for ever, if it waited for what came later
  may_end = true;
  side.synchronize();
}

TEST(StreamUses, ReadersDoNotRecordForEachOther) {
  FakeAccelerator& fake = FakeAccelerator::install();
  const Stream one = Stream::make(fake.device()), two = Stream::make(fake.device());
  StreamUses uses;
  const std::int64_t before = fake.recorded();
  for (int i = 0; i < 100; ++i) {
    uses.before_read(one);
    uses.before_read(two);
  }
  EXPECT_EQ(fake.recorded(), before);
  uses.before_write(one);
  EXPECT_EQ(fake.recorded(), before + 1) << "the other reader's";
}

// Streams come and go, and nothing piles up.
TEST(StreamUses, ABufferLetsTheThreadsOfSideStreamsEnd) {
  Buffer buffer(kCpu, 64);
  std::weak_ptr<int> held;
  for (int i = 0; i < 20; ++i) {
    const Stream side = Stream::make(kCpu);
    auto token = std::make_shared<int>(i);
    held = token;
    side.run([token = std::move(token)] { std::this_thread::yield(); });
    buffer.read(side);
  }
  EXPECT_TRUE(held.expired()) << "the thread has ended with its work";
  buffer.before_write(Stream::current(kCpu));
}

}  // namespace
}  // namespace zeroshard
