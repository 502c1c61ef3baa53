// The cases of every device, on the CPU and on the made-up accelerator.
#include <chrono>
#include <thread>

#include "tests/device/device_cases.h"
#include "tests/support/fake_accelerator.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

DeviceCase cpu_case() {
  return {"cpu", [] {}, kCpu, [](const Stream& stream) { stream.run(rest); }};
}

DeviceCase fake_case() {
  return {"fake", [] { FakeAccelerator::install(); }, FakeAccelerator::device(),
          [](const Stream& stream) { FakeAccelerator::install().launch(stream, rest); }};
}

INSTANTIATE_TEST_SUITE_P(Here, OnDevice, testing::Values(cpu_case(), fake_case()));

TEST(Accelerator, ItsMemoryIsNotTheHosts) {
  FakeAccelerator& fake = FakeAccelerator::install();
  const Buffer buffer(fake.device(), 100);
  EXPECT_FALSE(fake.host_can_read(buffer.data()));
  const Buffer pinned = Buffer::pinned(fake.device(), 100);
  EXPECT_TRUE(fake.host_can_read(pinned.data()));
}

TEST(Accelerator, OutOfMemorySaysHowMuchAndWhere) {
  FakeAccelerator::install();
  try {
    const Buffer buffer(FakeAccelerator::device(), FakeAccelerator::kCapacity + 1);
    FAIL() << "no error";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.fault().value, "1.00 GiB (1073741825 bytes) on cuda:0");
  }
}

TEST(Accelerator, AStreamOfItNeedsAnEndOfItsOwn) {
  FakeAccelerator::install();
  int from = 1, to = 0;
  const Stream stream = Stream::make(FakeAccelerator::device());
  EXPECT_THROW(copy_bytes(stream, &to, kCpu, &from, kCpu, sizeof to), InvariantError);
}

TEST(Accelerator, MistakenMemoryFailsTheStream) {
  FakeAccelerator::install();
  int from = 1, to = 0;
  const Stream stream = Stream::make(FakeAccelerator::device());
  copy_bytes(stream, &to, FakeAccelerator::device(), &from, kCpu, sizeof to);
  EXPECT_THROW(stream.synchronize(), InvariantError);
}

TEST(Accelerator, WaitingForAFailedCpuStreamThrows) {
  FakeAccelerator::install();
  const Stream cpu = Stream::make(kCpu), stream = Stream::make(FakeAccelerator::device());
  cpu.run([] { throw std::runtime_error("the kernel broke"); });
  Event event;
  event.record(cpu);
  EXPECT_THROW(stream.wait(event), std::runtime_error);
}

TEST(Accelerator, DevicesAreCountedFromZero) {
  FakeAccelerator::install();
  EXPECT_THROW(Stream::current({DeviceKind::cuda, 1}), ConfigError);
  EXPECT_THROW(Stream::make({DeviceKind::cuda, -1}), ConfigError);
  EXPECT_EQ(name_of(FakeAccelerator::device()), "cuda:0");
  EXPECT_EQ(name_of(kCpu), "cpu");
}

}  // namespace
}  // namespace zeroshard
