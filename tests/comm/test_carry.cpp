// Device memory through host-only backends, on an accelerator that cannot be touched from the host
// and whose streams dawdle.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/comm/carry_support.h"
#include "tests/comm/contract.h"
#include "tests/comm/rank_values.h"
#include "tests/support/fake_accelerator.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/single.h"

namespace zeroshard {
namespace {

constexpr Device kFake = FakeAccelerator::device();

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

struct CarryCase {
  int ranks;
  CarryOptions options;
  std::int64_t large_count;  // per run, over all ranks
};

class Carry : public testing::TestWithParam<CarryCase> {
 protected:
  void SetUp() override { FakeAccelerator::install(); }
};

TEST_P(Carry, Contract) {
  const auto& [ranks, options, large_count] = GetParam();
  const auto body = [count = large_count / ranks](Communicator& comm, TrafficLedger&) {
    contract::everything(comm, count, kFake);
  };
  EXPECT_NO_THROW(run_carrying_ranks(ranks, options, body));
}

std::vector<CarryCase> all_cases() {
  std::vector<CarryCase> cases;
  for (const int ranks : {1, 2, 3, 4}) {
    cases.push_back({ranks, {}, 1 << 20});
    cases.push_back({ranks, {.part_bytes = 29}, 500});
    cases.push_back({ranks, {.part_bytes = 4099, .slots = 2}, 100'000});
  }
  cases.push_back({2, {.part_bytes = 61, .slots = 1}, 300});
  cases.push_back({3, {.part_bytes = 50'001, .slots = 5}, 1 << 20});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, Carry, testing::ValuesIn(all_cases()));

class CarryCalls : public testing::Test {
 protected:
  void SetUp() override { FakeAccelerator::install(); }
};

TEST_F(CarryCalls, HostMemoryPassesStraightThrough) {
  run_carrying_ranks(3, {},
                     [](Communicator& comm, TrafficLedger&) { contract::everything(comm, 1000); });
}

TEST_F(CarryCalls, OverOneRankToo) {
  const auto comm = carry_through_host(make_single_communicator(), {.part_bytes = 100});
  contract::everything(*comm, 5000, kFake);
}

TEST_F(CarryCalls, ASingleRankThatKnowsItsDeviceKeepsTheContract) {
  contract::everything(*make_single_communicator(kFake), 100'000, kFake);
  contract::everything(*make_single_communicator(kFake), 5000);
}

TEST_F(CarryCalls, ASingleRankThatDoesNotSaysSo) {
  const auto comm = make_single_communicator();
  const Buffer from(kFake, 256), to(kFake, 256);
  const ConstPiece in{from.data(), 64, DType::fp32, DeviceKind::cuda};
  const Piece out{to.data(), 64, DType::fp32, DeviceKind::cuda};
  EXPECT_THROW(comm->all_gather_into({{in, out}}, "block.1"), CommError);
  EXPECT_THROW(comm->reduce_scatter_into({{in, out}}, {}, "block.1"), CommError);
  comm->all_gather_into({{out.read(), out}}, "in place").wait();
}

// The host goes on, and what the stream is given next comes after the copy.
TEST_F(CarryCalls, ASingleRankBringsPinnedMemoryUpBesideTheComputation) {
  const auto comm = make_single_communicator(kFake);
  FakeAccelerator& fake = FakeAccelerator::install();
  const Buffer shard = Buffer::pinned(kFake, 4096), full(kFake, 4096), seen(kFake, 4096);
  std::fill_n(static_cast<char*>(shard.data()), 4096, 'n');
  const Stream compute = Stream::make(kFake);
  const std::int64_t unpinned = fake.unpinned_copies();
  compute.run([&] {
    fake.launch(compute, nap);
    const Handle gathered =
        comm->all_gather_into({{ConstPiece{shard.data(), 1024, DType::fp32},
                                Piece{full.data(), 1024, DType::fp32, DeviceKind::cuda}}},
                              "block.1");
    EXPECT_FALSE(gathered.done()) << "it comes after the caller's stream";
    gathered.wait(compute);
    EXPECT_FALSE(gathered.done()) << "the host does not wait";
    copy_bytes(compute, seen.data(), kFake, full.data(), kFake, 4096);
  });
  const Buffer back = Buffer::pinned(kFake, 4096);
  copy_bytes(compute, back.data(), kCpu, seen.data(), kFake, 4096);
  compute.synchronize();
  EXPECT_EQ(std::string(static_cast<const char*>(back.data()), 4096), std::string(4096, 'n'));
  EXPECT_EQ(fake.unpinned_copies(), unpinned);
}

// 1000 floats of 2 ranks through slots of 4 x 400 bytes: 200 floats of each rank at a time.
TEST_F(CarryCalls, PartsKeepTheLabelAndTheBytes) {
  run_carrying_ranks(2, {.part_bytes = 400}, [](Communicator& comm, TrafficLedger& inner) {
    contract::all_gather(comm, 1000, DType::fp32, kFake);
    const TrafficLedger::Entry entry = inner.entry(Operation::all_gather, "gather");
    EXPECT_EQ(entry, (TrafficLedger::Entry{.calls = 5, .bytes = 4000}));
    EXPECT_EQ(inner.entries().size(), 1U);
  });
}

TEST_F(CarryCalls, NothingToMoveIsStillOneCall) {
  run_carrying_ranks(2, {}, [](Communicator& comm, TrafficLedger& inner) {
    contract::all_reduce(comm, 0, DType::fp32, ReduceOp::sum, kFake);
    EXPECT_EQ(inner.entry(Operation::all_reduce, "all-reduce").calls, 1);
  });
}

// Input and output of a pair: every mix of device and host memory.
constexpr Device kEnds[4][2] = {{kCpu, kCpu}, {kFake, kFake}, {kCpu, kFake}, {kFake, kCpu}};

TEST_F(CarryCalls, EitherEndOfAPairMayBeOnTheHost) {
  run_carrying_ranks(3, {.part_bytes = 101}, [&](Communicator& comm, TrafficLedger&) {
    std::vector<RankBuffer> in, out;
    std::vector<GatherPair> pairs;
    for (int i = 0; i < 4; ++i) {
      in.push_back(RankBuffer::of_rank(comm.rank(), i, 130 + i, DType::bf16, kEnds[i][0]));
      out.emplace_back((130 + i) * 3, DType::bf16, kEnds[i][1]);
    }
    for (std::size_t i = 0; i < 4; ++i) pairs.push_back({in[i].read(), out[i].piece()});
    comm.all_gather_into(pairs, "mixed").wait();
    for (int i = 0; i < 4; ++i) {
      const RankBuffer& got = out[static_cast<std::size_t>(i)];
      for (std::int64_t at = 0; at < got.count(); ++at) {
        const int rank = static_cast<int>(at / (130 + i));
        ASSERT_EQ(got.get(at), value_at(rank, i, at % (130 + i)));
      }
    }
  });
}

// Reductions of every mix; the pair of host memory goes through the inner backend as it is. 265
// elements end a few bytes into a slot, where the next part must not be written too early.
void expect_equal_reductions(Communicator& comm) {
  const ReduceOptions options{.scale = 0.3F, .accumulate = true};
  const auto addend = [](std::int64_t i) { return 1.0 / static_cast<double>(i % 97 + 3); };
  std::vector<RankBuffer> in, out;
  std::vector<ReducePair> pairs;
  for (const auto& ends : kEnds) {
    in.emplace_back(3 * 265, DType::bf16, ends[0]);
    out.emplace_back(265, DType::fp32, ends[1]);
    for (std::int64_t i = 0; i < 3 * 265; ++i) in.back().set(i, addend(i * 7 + comm.rank()));
    for (std::int64_t i = 0; i < 265; ++i) out.back().set(i, addend(i));
  }
  for (std::size_t i = 0; i < 4; ++i) pairs.push_back({in[i].read(), out[i].piece()});
  comm.reduce_scatter_into(pairs, options, "mixed").wait();
  for (std::int64_t i = 0; i < 265; ++i) {
    for (std::size_t pair = 1; pair < 4; ++pair) ASSERT_EQ(out[pair].get(i), out[0].get(i));
  }
}

TEST_F(CarryCalls, ReductionsOfMixedMemoryHaveTheInnerBackendsBits) {
  for (const int slots : {1, 3}) {
    run_carrying_ranks(3, {.part_bytes = 101, .slots = slots},
                       [](Communicator& comm, TrafficLedger&) {
                         for (int round = 0; round < 20; ++round) expect_equal_reductions(comm);
                       });
  }
}

// The input is written, and the output's old values are read, by work that the caller's stream has
// not done yet when the call is made.
TEST_F(CarryCalls, TheCallersStreamComesFirst) {
  run_carrying_ranks(2, {}, [](Communicator& comm, TrafficLedger&) {
    const Stream compute = Stream::make(kFake);
    compute.run([&] {
      const RankBuffer in = RankBuffer::of_rank(comm.rank(), 0, 100, DType::fp32, kFake);
      RankBuffer out = RankBuffer::of_rank(7, 7, 200, DType::fp32, kFake);
      const Buffer saved(kFake, 800);
      std::vector<float> old(200);
      FakeAccelerator::install().launch(compute, nap);
      const Piece target = out.piece();
      copy_bytes(compute, saved.data(), kFake, target.data, kFake, 800);
      const Handle handle = comm.all_gather_into({{in.read(), target}}, "late");
      EXPECT_FALSE(handle.done());
      handle.wait();
      copy_bytes(compute, old.data(), kCpu, saved.data(), kFake, 800);
      compute.synchronize();
      for (std::int64_t i = 0; i < 200; ++i) {
        ASSERT_EQ(old[static_cast<std::size_t>(i)], value_at(7, 7, i));
        ASSERT_EQ(out.get(i), value_at(static_cast<int>(i / 100), 0, i % 100));
      }
    });
  });
}

// Where nothing comes down, the way up waits all the same.
TEST_F(CarryCalls, TheCallersStreamComesFirstForOutputsToo) {
  run_carrying_ranks(2, {}, [](Communicator& comm, TrafficLedger&) {
    RankBuffer out = RankBuffer::of_rank(comm.rank(), 3, 200, DType::fp32, kFake);
    const Buffer saved(kFake, 800);
    const Stream compute = Stream::make(kFake);
    compute.run([&] {
      FakeAccelerator::install().launch(compute, nap);
      const Piece target = out.piece();
      copy_bytes(compute, saved.data(), kFake, target.data, kFake, 800);
      comm.broadcast(target, 0, "late").wait();
      std::vector<float> old(200);
      copy_bytes(compute, old.data(), kCpu, saved.data(), kFake, 800);
      compute.synchronize();
      for (std::int64_t i = 0; i < 200; ++i) {
        ASSERT_EQ(old[static_cast<std::size_t>(i)], value_at(comm.rank(), 3, i));
        ASSERT_EQ(out.get(i), value_at(0, 3, i));
      }
    });
  });
}

TEST_F(CarryCalls, HostCallsKeepTheirPlaceBehindDeviceCalls) {
  run_carrying_ranks(3, {.part_bytes = 64}, [](Communicator& comm, TrafficLedger&) {
    RankBuffer device = RankBuffer::of_rank(comm.rank(), 1, 500, DType::fp32, kFake);
    RankBuffer host = RankBuffer::of_rank(comm.rank(), 2, 50, DType::fp32);
    FakeAccelerator::install().launch(Stream::current(kFake), nap);
    const Handle first = comm.broadcast(device.piece(), 1, "device");
    const Handle second = comm.broadcast(host.piece(), 2, "host");
    const Handle third = comm.barrier("end");
    third.wait();
    EXPECT_TRUE(first.done());
    EXPECT_TRUE(second.done());
    for (std::int64_t i = 0; i < 500; ++i) ASSERT_EQ(device.get(i), value_at(1, 1, i));
    for (std::int64_t i = 0; i < 50; ++i) ASSERT_EQ(host.get(i), value_at(2, 2, i));
  });
}

TEST_F(CarryCalls, TheDestructorFinishesWhatIsUnderWay) {
  run_ranks(2, {}, [](Communicator& thread_comm) {
    TrafficLedger inner;
    RankBuffer buffer = RankBuffer::of_rank(thread_comm.rank(), 0, 1000, DType::fp32, kFake);
    Handle handle;
    {
      const auto comm = carry_through_host(count_traffic(thread_comm, inner), {.part_bytes = 64});
      handle = comm->broadcast(buffer.piece(), 1, "last");
    }
    EXPECT_TRUE(handle.done());
    for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(buffer.get(i), value_at(1, 0, i));
  });
}

}  // namespace
}  // namespace zeroshard
