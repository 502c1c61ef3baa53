// What streams, events, copies and buffers promise on every device, written once: a test program
// includes this and instantiates OnDevice with the devices it has.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/device/device_case.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/event.h"
#include "zeroshard/device/stream.h"

namespace zeroshard {

class OnDevice : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override { GetParam().load(); }

  Device device() const { return GetParam().device; }
  Stream side() const { return Stream::make(device()); }
  void occupy(const Stream& stream) const { GetParam().occupy(stream); }

  Buffer filled(std::int64_t bytes, unsigned char value) const {
    const Bytes host(static_cast<std::size_t>(bytes), value);
    return holding(host);
  }

  Buffer holding(const Bytes& host) const {
    Buffer buffer(device(), static_cast<std::int64_t>(host.size()));
    const Stream stream = Stream::current(device());
    copy_bytes(stream, buffer.data(), device(), host.data(), kCpu, buffer.bytes());
    stream.synchronize();
    return buffer;
  }

  static Bytes contents(const Buffer& buffer) {
    Bytes host(static_cast<std::size_t>(buffer.bytes()));
    const Stream stream = Stream::make(buffer.device());
    buffer.before_read(stream);
    copy_bytes(stream, host.data(), kCpu, buffer.data(), buffer.device(), buffer.bytes());
    stream.synchronize();
    return host;
  }

  // From one buffer into another in `stream`'s order, with the waits that both ask for.
  static void copy(const Stream& stream, Buffer& to, Buffer& from) {
    from.before_read(stream);
    to.before_write(stream);
    copy_bytes(stream, to.data(), to.device(), from.data(), from.device(), from.bytes());
    from.read(stream);
    to.wrote(stream);
  }
};

TEST_P(OnDevice, BytesArriveWhateverTheirNumber) {
  for (const std::size_t bytes : {0, 1, 255, 4097, (1 << 20) + 3}) {
    Bytes host(bytes);
    for (std::size_t i = 0; i < bytes; ++i) host[i] = static_cast<unsigned char>(i * 7 + i / 251);
    Buffer from = holding(host);
    Buffer to(device(), from.bytes());
    copy(side(), to, from);
    EXPECT_EQ(contents(to), host);
  }
}

TEST_P(OnDevice, BuffersAreAlignedAndOfTheirExactSize) {
  for (const std::int64_t bytes : {1, 100, 256, 100'000}) {
    const Buffer buffer(device(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0U);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(buffer.device(), device());
    const Buffer pinned = Buffer::pinned(device(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pinned.data()) % 256, 0U);
    EXPECT_EQ(pinned.device(), kCpu);
  }
  EXPECT_EQ(Buffer(device(), 0).data(), nullptr);
}

TEST_P(OnDevice, AnEventNeverRecordedIsDone) {
  const Event event;
  EXPECT_TRUE(event.done());
  event.synchronize();
  side().wait(event);
}

TEST_P(OnDevice, ASideStreamLetsTheCallerGoOn) {
  const Stream stream = side();
  occupy(stream);
  Event event;
  event.record(stream);
  EXPECT_FALSE(event.done());
  event.synchronize();
  EXPECT_TRUE(event.done());
}

TEST_P(OnDevice, ACopyOfAnEventKeepsItsPoint) {
  const Stream stream = side();
  Event event;
  event.record(stream);
  const Event first = event;
  occupy(stream);
  event.record(stream);
  first.synchronize();
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(event.done());
  stream.synchronize();
}

TEST_P(OnDevice, AReaderOnASlowStreamDelaysAWriter) {
  Buffer shared = filled(4096, 1), next = filled(4096, 2), seen = filled(4096, 0);
  const Stream reader = side(), writer = side();
  occupy(reader);
  copy(reader, seen, shared);
  copy(writer, shared, next);
  EXPECT_EQ(contents(seen), Bytes(4096, 1));
  EXPECT_EQ(contents(shared), Bytes(4096, 2));
}

TEST_P(OnDevice, AReaderWaitsForASlowWriter) {
  Buffer shared = filled(4096, 1), next = filled(4096, 2), seen = filled(4096, 0);
  const Stream reader = side(), writer = side();
  occupy(writer);
  copy(writer, shared, next);
  copy(reader, seen, shared);
  EXPECT_EQ(contents(seen), Bytes(4096, 2));
}

TEST_P(OnDevice, ABufferInUseIsDestroyedAfterItsLastUse) {
  const Stream stream = side();
  Event used;
  {
    Buffer buffer(device(), 64);
    occupy(stream);
    used.record(stream);
    buffer.read(stream);
  }
  EXPECT_TRUE(used.done());
}

TEST_P(OnDevice, AssigningABufferWaitsForTheOldOne) {
  const Stream stream = side();
  Buffer buffer(device(), 64);
  occupy(stream);
  Event used;
  used.record(stream);
  buffer.wrote(stream);
  buffer = Buffer(device(), 128);
  EXPECT_TRUE(used.done());
  EXPECT_EQ(buffer.bytes(), 128);
}

TEST_P(OnDevice, ACpuStreamWaitsForTheDevice) {
  const Stream stream = side(), cpu = Stream::make(kCpu);
  occupy(stream);
  Event event;
  event.record(stream);
  cpu.wait(event);
  bool came_after = false;
  cpu.run([&] { came_after = event.done(); });
  cpu.synchronize();
  EXPECT_TRUE(came_after);
  Stream::current(kCpu).wait(event);
}

TEST_P(OnDevice, TheDeviceWaitsForACpuStream) {
  const Stream stream = side(), cpu = Stream::make(kCpu);
  Buffer to = filled(64, 0);
  Bytes host(64, 1);
  cpu.run([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::fill(host.begin(), host.end(), 2);
  });
  Event written;
  written.record(cpu);
  stream.wait(written);
  copy_bytes(stream, to.data(), device(), host.data(), kCpu, 64);
  stream.synchronize();
  EXPECT_EQ(contents(to), Bytes(64, 2));
}

TEST_P(OnDevice, ACpuStreamCopiesFromTheDevice) {
  const Buffer from = filled(1000, 9);
  Bytes host(1000);
  const Stream cpu = Stream::make(kCpu);
  copy_bytes(cpu, host.data(), kCpu, from.data(), device(), 1000);
  cpu.synchronize();
  EXPECT_EQ(host, Bytes(1000, 9));
}

TEST_P(OnDevice, RunMakesTheStreamCurrentOnAccelerators) {
  if (device() == kCpu) GTEST_SKIP() << "the CPU's current stream is always the calling thread";
  const Stream stream = side();
  stream.run([&] { EXPECT_EQ(Stream::current(device()).id(), stream.id()); });
  EXPECT_NE(Stream::current(device()).id(), stream.id());
}

// Random copies between a few buffers on a few streams give what they give one after another.
TEST_P(OnDevice, RandomCopiesEqualASequentialRun) {
  std::mt19937 random(7);
  const auto draw = [&](std::size_t below) { return random() % below; };
  for (int round = 0; round < 10; ++round) {
    std::vector<Stream> streams;
    std::vector<Buffer> buffers;
    std::vector<Bytes> expected;
    for (int i = 0; i < 4; ++i) streams.push_back(i == 0 ? Stream::current(device()) : side());
    for (int i = 0; i < 5; ++i) {
      expected.push_back(Bytes(2000, static_cast<unsigned char>(i)));
      buffers.push_back(i == 4 ? Buffer::pinned(device(), 2000) : holding(expected.back()));
    }
    std::fill_n(static_cast<unsigned char*>(buffers[4].data()), 2000, 4);
    for (int step = 0; step < 60; ++step) {
      const std::size_t from = draw(5), to = (from + 1 + draw(4)) % 5;
      copy(streams[draw(4)], buffers[to], buffers[from]);
      expected[to] = expected[from];
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_EQ(contents(buffers[i]), expected[i]);
  }
}

}  // namespace zeroshard
