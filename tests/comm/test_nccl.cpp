// NCCL's place in the library, over a library of threads that takes NCCL's: the contract, the
// order of launches, and what goes wrong.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/comm/contract.h"
#include "tests/comm/fake_nccl.h"
#include "tests/comm/rank_values.h"
#include "tests/support/fake_accelerator.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/nccl.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

constexpr Device kRanksGpu = FakeAccelerator::device();
using std::chrono::milliseconds;

NcclOptions fake_options() {
  return {.comm = {.timeout = std::chrono::seconds(20)},
          .heartbeat = milliseconds(50),
          .library = &FakeNccl::library(),
          .write = write_arrays_on_fake};
}

using Body = std::function<void(Communicator&)>;

// The threads' communicator belongs to its thread; NCCL's takes a sibling of it.
void run_nccl_ranks(int ranks, const NcclOptions& options, const Body& body) {
  run_ranks(ranks, {.timeout = std::chrono::seconds(20)}, [&](Communicator& threads) {
    const auto comm = make_nccl_communicator(threads.make_sibling(), kRanksGpu, options);
    body(*comm);
  });
}

class Nccl : public testing::Test {
 protected:
  void SetUp() override { FakeAccelerator::install(); }
  void TearDown() override {
    FakeNccl::behave();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (FakeNccl::alive() != alive_before_ && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_EQ(FakeNccl::alive(), alive_before_) << "communicators that nobody has ended";
    EXPECT_LE(FakeNccl::aborted() - aborted_before_, may_abort_);
    EXPECT_LT(std::chrono::steady_clock::now() - start_, std::chrono::seconds(60));
  }

  int may_abort_ = 0;  // communicators

 private:
  const int alive_before_ = FakeNccl::alive();
  const int aborted_before_ = FakeNccl::aborted();
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string outcome_of(const Handle& handle) {
  try {
    handle.wait();
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

void expect_said(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
}

struct NcclCase {
  int ranks;
  bool deterministic;
};

class NcclContract : public Nccl, public testing::WithParamInterface<NcclCase> {};

TEST_P(NcclContract, OfDeviceMemory) {
  NcclOptions options = fake_options();
  options.comm.deterministic = GetParam().deterministic;
  run_nccl_ranks(GetParam().ranks, options, [&](Communicator& comm) {
    contract::everything(
        comm, (1 << 18) / comm.world_size(), kRanksGpu,
        options.comm.deterministic ? contract::Sums::in_rank_order : contract::Sums::in_any_order);
  });
}

TEST_P(NcclContract, OfHostMemory) {
  run_nccl_ranks(GetParam().ranks, fake_options(),
                 [](Communicator& comm) { contract::everything(comm, 1000); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclContract,
                         testing::Values(NcclCase{1, true}, NcclCase{2, false}, NcclCase{2, true},
                                         NcclCase{3, true}, NcclCase{4, false}, NcclCase{4, true}));

// Every pair of dtypes, factor and accumulation; addends of very different sizes.
std::vector<float> reduced(Communicator& comm, Device device, const ReduceOptions& options,
                           DType in_dtype, DType out_dtype) {
  constexpr std::int64_t kCount = 515;
  RankBuffer in(kCount * comm.world_size(), in_dtype, device), out(kCount, out_dtype, device);
  for (std::int64_t i = 0; i < in.count(); ++i) {
    in.set(i, std::ldexp(1.0 + static_cast<double>((comm.rank() * 31 + i * 17) % 97) / 97.0,
                         static_cast<int>((comm.rank() * 13 + i * 7) % 20) - 14));
  }
  for (std::int64_t i = 0; i < kCount; ++i) out.set(i, static_cast<double>(i % 13) / 7.0);
  comm.reduce_scatter_into({{in.read(), out.piece()}}, options, "sum").wait();
  std::vector<float> values;
  for (std::int64_t i = 0; i < kCount; ++i) values.push_back(static_cast<float>(out.get(i)));
  return values;
}

constexpr std::pair<DType, DType> kSums[] = {{DType::fp32, DType::fp32},
                                             {DType::bf16, DType::bf16},
                                             {DType::bf16, DType::fp32},
                                             {DType::fp16, DType::fp16},
                                             {DType::fp16, DType::fp32}};

// The mean of 3 ranks is no power of two, that of 4 is.
TEST_F(Nccl, DeterministicSumsAreThoseOfThreadsToTheBit) {
  NcclOptions options = fake_options();
  options.comm.deterministic = true;
  for (const int ranks : {2, 3, 4}) {
    run_ranks(ranks, {}, [&](Communicator& threads) {
      const auto comm = make_nccl_communicator(threads.make_sibling(), kRanksGpu, options);
      for (const auto& [in, out] : kSums) {
        for (const bool accumulate : {false, true}) {
          const ReduceOptions mean{.scale = 1.0F / static_cast<float>(ranks),
                                   .accumulate = accumulate};
          EXPECT_EQ(reduced(*comm, kRanksGpu, mean, in, out),
                    reduced(threads, kCpu, mean, in, out));
        }
      }
    });
  }
}

// A ring rounds to the input's dtype at each of its steps, and the factor is applied before it.
TEST_F(Nccl, OtherSumsAreWithinTheBoundOfTheDtype) {
  for (const int ranks : {2, 3, 4}) {
    run_ranks(ranks, {}, [&](Communicator& threads) {
      const auto comm = make_nccl_communicator(threads.make_sibling(), kRanksGpu, fake_options());
      for (const auto& [in, out] : kSums) {
        for (const bool accumulate : {false, true}) {
          const ReduceOptions mean{.scale = 1.0F / static_cast<float>(ranks),
                                   .accumulate = accumulate};
          const auto got = reduced(*comm, kRanksGpu, mean, in, out);
          const auto exact = reduced(threads, kCpu, mean, in, out);
          const double unit = in == DType::bf16 ? 0x1p-8 : in == DType::fp16 ? 0x1p-11 : 0x1p-24;
          for (std::size_t i = 0; i < got.size(); ++i) {
            const double size = std::abs(exact[i]) + 2.0;  // of what was there before
            EXPECT_NEAR(got[i], exact[i], (ranks + 2) * unit * size);
          }
        }
      }
    });
  }
}

// 4 x 40,000 is more than fp16 has, its mean is not.
TEST_F(Nccl, SumsOfFp16OverflowWhereTheMeanDoes) {
  run_nccl_ranks(4, fake_options(), [](Communicator& comm) {
    RankBuffer in(4 * 64, DType::fp16, kRanksGpu), out(64, DType::fp16, kRanksGpu);
    for (std::int64_t i = 0; i < in.count(); ++i) in.set(i, 40'000);
    comm.reduce_scatter_into({{in.read(), out.piece()}}, {.scale = 0.25F}, "mean").wait();
    for (std::int64_t i = 0; i < 64; ++i) ASSERT_EQ(out.get(i), 40'000);
  });
}

// What a plan counts is what a sum takes: the caller's memory where that is given, else as much of
// the communicator's own.
TEST_F(Nccl, SumsTakeTheScratchThatIsPlanned) {
  constexpr std::int64_t kCount = 1000;
  for (const bool deterministic : {false, true}) {
    NcclOptions options = fake_options();
    options.comm.deterministic = deterministic;
    run_nccl_ranks(3, options, [&](Communicator& comm) {
      const ReduceOptions mean{.scale = 1.0F / 3.0F};
      const std::int64_t planned =
          sum_scratch_bytes({{kCount, DType::bf16, DType::fp32}, {8, DType::fp32, DType::fp32}},
                            {.sums = comm.device_sums(), .ranks = 3, .scale = mean.scale});
      EXPECT_GT(planned, 0);
      RankBuffer in(3 * kCount, DType::bf16, kRanksGpu), out(kCount, DType::fp32, kRanksGpu);
      RankBuffer few_in(24, DType::fp32, kRanksGpu), few_out(8, DType::fp32, kRanksGpu);
      Buffer scratch(kRanksGpu, planned);
      const auto allocated_by = [&](const ReduceOptions& how) {
        comm.broadcast(few_in.piece(), 0, "made").wait();
        comm.barrier("before").wait();
        const std::int64_t before = FakeAccelerator::install().memory_use(0).now;
        comm.barrier("all have looked").wait();
        comm.reduce_scatter_into({{in.read(), out.piece()}, {few_in.read(), few_out.piece()}}, how,
                                 "sum")
            .wait();
        comm.barrier("all have added").wait();
        const std::int64_t after = FakeAccelerator::install().memory_use(0).now;
        comm.barrier("all have looked again").wait();
        return after - before;
      };
      for (RankBuffer* const each : {&in, &out, &few_in, &few_out}) each->read();
      ReduceOptions given = mean;
      given.scratch = scratch.data();
      given.scratch_bytes = scratch.bytes();
      EXPECT_EQ(allocated_by(given), 0);
      EXPECT_EQ(allocated_by(mean), 3 * planned) << "each of 3 ranks";
      EXPECT_EQ(allocated_by(given), 0);
    });
  }
}

// What the order of launches is there for: on this device kernels that cross never end.
TEST_F(Nccl, KernelsThatCrossWouldNeverEnd) {
  may_abort_ = 4;
  const NcclLibrary& nccl = FakeNccl::library();
  NcclLibrary::Id ids[2];
  for (auto& id : ids) nccl.get_unique_id(&id);
  run_ranks(2, {}, [&](Communicator& threads) {
    NcclLibrary::Comm comms[2];
    std::vector<Stream> streams;
    for (int i = 0; i < 2; ++i) {
      NcclLibrary::Config config;
      nccl.comm_init_rank_config(&comms[i], 2, ids[i], threads.rank(), &config);
      streams.push_back(Stream::make(kRanksGpu));
    }
    const Buffer memory(kRanksGpu, 512);
    const auto settle = [&](int which) {
      NcclLibrary::Result state = NcclLibrary::kInProgress;
      while (state == NcclLibrary::kInProgress) nccl.comm_get_async_error(comms[which], &state);
    };
    for (const int which : {0, 1}) settle(which);
    const auto launch = [&](int which) {
      nccl.group_start();
      nccl.broadcast(memory.data(), memory.data(), 256, NcclLibrary::kBytes, 0, comms[which],
                     streams[static_cast<std::size_t>(which)].native());
      nccl.group_end();
      settle(which);
      std::this_thread::sleep_for(milliseconds(30));  // the first one has the device by then
    };
    launch(threads.rank());
    launch(1 - threads.rank());
    Event end;
    end.record(streams[0]);
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_FALSE(end.done());
    threads.barrier("both have seen it").wait();
    std::vector<std::thread> aborts;
    for (auto* const comm : comms) aborts.emplace_back([&nccl, comm] { nccl.comm_abort(comm); });
    for (std::thread& each : aborts) each.join();
    for (const Stream& stream : streams) stream.synchronize();
    threads.barrier("nobody reads the other's memory").wait();
  });
}

// An engine at stage 3 without its arithmetic: gathers of all units in one order, reductions in
// another, each used unit reduced when it has been computed and each skipped one at its turn. Which
// ones are skipped, and so how the two orders meet, each rank draws for itself.
class Steps {
 public:
  Steps(Communicator& comm, unsigned seed)
      : gathers_(comm.make_sibling()),
        reductions_(comm.make_sibling()),
        random_(seed + static_cast<unsigned>(comm.rank()) * 977),
        ranks_(comm.world_size()),
        rank_(comm.rank()) {
    for (int unit = 0; unit < kUnits; ++unit) {
      shards_.push_back(RankBuffer::of_rank(rank_, unit, kCount, DType::fp32, kRanksGpu));
      full_.emplace_back(kCount * ranks_, DType::fp32, kRanksGpu);
      sums_.emplace_back(kCount, DType::fp32, kRanksGpu);
    }
  }

  void run(int steps) {
    const Stream compute = Stream::make(kRanksGpu);
    compute.run([&] {
      for (int step = 0; step < steps; ++step) {
        one(compute);
        if (step % 16 == 0) next_values();
      }
      compute.synchronize();
    });
    for (int unit = 0; unit < kUnits; ++unit) check(unit);
  }

 private:
  static constexpr int kUnits = 6;
  static constexpr std::int64_t kCount = 40;

  // What an operation that came too late or not at all would leave is another step's.
  void next_values() {
    for (int unit = 0; unit < kUnits; ++unit) check(unit);
    ++buffer_;
    for (int unit = 0; unit < kUnits; ++unit) {
      shards_[static_cast<std::size_t>(unit)] =
          RankBuffer::of_rank(rank_, unit + buffer_, kCount, DType::fp32, kRanksGpu);
    }
  }

  bool draw(unsigned one_in) { return random_() % one_in == 0; }

  void dawdle() {
    if (draw(16)) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
  }

  void one(const Stream& compute) {
    std::vector<Handle> gathered(kUnits), reduced;
    int issued = 0, finished = 0;
    const auto gather_up_to = [&](int unit) {
      for (; issued <= std::min(unit, kUnits - 1); ++issued) {
        const auto at = static_cast<std::size_t>(issued);
        gathered[at] =
            gathers_->all_gather_into({{shards_[at].read(), full_[at].piece()}}, name(issued));
        dawdle();
      }
    };
    const auto reduce_up_to = [&](int unit) {
      for (; finished <= unit; ++finished) {
        const auto at = static_cast<std::size_t>(finished);
        gathered[at].wait(compute);
        reduced.push_back(reductions_->reduce_scatter_into({{full_[at].read(), sums_[at].piece()}},
                                                           {.scale = 0.5F}, name(finished)));
        // As an engine with a ring of two buckets: the host waits until the last but one is issued.
        if (reduced.size() > 1) reduced[reduced.size() - 2].wait(compute);
        dawdle();
      }
    };
    for (int unit = 0; unit < kUnits; ++unit) {
      const bool skipped = draw(3);
      if (skipped) continue;
      gather_up_to(unit + static_cast<int>(random_() % 3));
      reduce_up_to(unit - 1);  // the skipped ones, before this one's gather is waited for
      gathered[static_cast<std::size_t>(unit)].wait(compute);
      reduce_up_to(unit);
    }
    gather_up_to(kUnits - 1);
    reduce_up_to(kUnits - 1);
    for (const Handle& each : reduced) each.wait(compute);
  }

  void check(int unit) {
    const auto at = static_cast<std::size_t>(unit);
    for (std::int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(sums_[at].get(i), ranks_ * value_at(rank_, unit + buffer_, i) / 2.0);
    }
  }

  static std::string name(int unit) { return "block." + std::to_string(unit); }

  const std::unique_ptr<Communicator> gathers_, reductions_;
  std::minstd_rand random_;
  const int ranks_, rank_;
  int buffer_ = 0;
  std::vector<RankBuffer> shards_, full_, sums_;
};

TEST_F(Nccl, RanksThatSkipUnitsGetThroughAThousandSteps) {
  run_nccl_ranks(2, fake_options(), [](Communicator& comm) { Steps(comm, 1).run(500); });
  run_nccl_ranks(4, fake_options(), [](Communicator& comm) { Steps(comm, 2).run(500); });
}

TEST_F(Nccl, RanksOutOfStepAreNamed) {
  run_nccl_ranks(2, fake_options(), [](Communicator& comm) {
    RankBuffer buffer(100, DType::fp32, kRanksGpu);
    const std::string label = comm.rank() == 0 ? "block.3" : "block.7";
    const std::string seen = outcome_of(comm.broadcast(buffer.piece(), 0, label));
    expect_said(seen, "[comm] ranks call different operations: rank 0 broadcast \"block.3\"");
    expect_said(seen, "rank 1 broadcast \"block.7\"");
    expect_said(outcome_of(comm.broadcast(buffer.piece(), 0, "next")), "block.7");
  });
}

TEST_F(Nccl, DifferentSizesAreNamed) {
  run_nccl_ranks(3, fake_options(), [](Communicator& comm) {
    RankBuffer buffer(comm.rank() == 2 ? 10 : 11, DType::fp32, kRanksGpu);
    expect_said(outcome_of(comm.broadcast(buffer.piece(), 0, "block.1")),
                "ranks call one operation with different sizes");
  });
}

TEST_F(Nccl, AStuckRankIsNamedWithinTheTime) {
  run_ranks(2, {.timeout = milliseconds(300)}, [](Communicator& threads) {
    const auto comm = make_nccl_communicator(threads.make_sibling(), kRanksGpu, fake_options());
    RankBuffer buffer(100, DType::fp32, kRanksGpu);
    if (threads.rank() == 1) return std::this_thread::sleep_for(milliseconds(900));
    expect_said(outcome_of(comm->broadcast(buffer.piece(), 0, "block.2")),
                "[comm] broadcast \"block.2\" (operation 0) waited 300 ms for rank 1");
  });
}

// Its order goes on telling the others that it is there, and has nothing.
TEST_F(Nccl, AStuckHostIsNamedWithinTheTime) {
  may_abort_ = 2;
  NcclOptions options = fake_options();
  options.comm.timeout = milliseconds(300);
  run_ranks(2, {.timeout = std::chrono::seconds(20)}, [&](Communicator& threads) {
    const auto comm = make_nccl_communicator(threads.make_sibling(), kRanksGpu, options);
    RankBuffer buffer(100, DType::fp32, kRanksGpu);
    comm->broadcast(buffer.piece(), 0, "block.1").wait();
    if (threads.rank() == 1) return std::this_thread::sleep_for(milliseconds(900));
    expect_said(outcome_of(comm->broadcast(buffer.piece(), 0, "block.2")),
                "broadcast \"block.2\" (operation 1) waited 300 ms for rank 1");
  });
}

// Longer than the timeout: nobody waits for anything meanwhile.
TEST_F(Nccl, RanksThatHaveNothingToSayForLongGoOn) {
  NcclOptions options = fake_options();
  options.comm.timeout = milliseconds(400);
  run_ranks(2, {.timeout = milliseconds(400)}, [&](Communicator& threads) {
    const auto comm = make_nccl_communicator(threads.make_sibling(), kRanksGpu, options);
    contract::all_gather(*comm, 100, DType::bf16, kRanksGpu);
    std::this_thread::sleep_for(milliseconds(900));
    contract::all_gather(*comm, 100, DType::bf16, kRanksGpu);
  });
}

// One rank's communicator ends half a second before the other's, and nobody takes it amiss.
TEST_F(Nccl, RanksEndWhenTheyLike) {
  run_ranks(2, {}, [&](Communicator& threads) {
    auto comm = make_nccl_communicator(threads.make_sibling(), kRanksGpu, fake_options());
    contract::all_gather(*comm, 100, DType::bf16, kRanksGpu);
    if (threads.rank() == 1) std::this_thread::sleep_for(milliseconds(500));
    comm.reset();
    threads.barrier("both").wait();
  });
}

TEST_F(Nccl, WhoWaitsForARankThatHasEndedHearsOfIt) {
  may_abort_ = 1;
  run_ranks(2, {}, [&](Communicator& threads) {
    auto comm = make_nccl_communicator(threads.make_sibling(), kRanksGpu, fake_options());
    RankBuffer buffer(100, DType::fp32, kRanksGpu);
    comm->broadcast(buffer.piece(), 0, "block.1").wait();
    if (threads.rank() == 0) {
      expect_said(outcome_of(comm->broadcast(buffer.piece(), 0, "block.2")),
                  "waits for rank 1, whose program has ended");
    }
    comm.reset();
    threads.barrier("both").wait();
  });
}

TEST_F(Nccl, ARankThatFailsInMeetingIsHeardOfByAll) {
  may_abort_ = 2;
  FakeNccl::fail_meeting_of(1);
  run_nccl_ranks(2, fake_options(), [](Communicator& comm) {
    RankBuffer buffer(100, DType::fp32, kRanksGpu);
    const std::string seen = outcome_of(comm.broadcast(buffer.piece(), 0, "block.2"));
    expect_said(seen, comm.rank() == 1 ? "no way to the other ranks" : "on another rank");
  });
}

// Its process is gone while the library meets, which itself would wait for ever.
TEST_F(Nccl, ARankThatIsGoneInMeetingIsHeardOfByAll) {
  may_abort_ = 3;
  FakeNccl::hang_meeting_of(2);
  const auto run = [] {
    run_nccl_ranks(3, fake_options(), [](Communicator& comm) {
      RankBuffer buffer(100, DType::fp32, kRanksGpu);
      const Handle handle = comm.broadcast(buffer.piece(), 0, "block.2");
      if (comm.rank() != 1) {
        const std::string seen = outcome_of(handle);
        expect_said(seen, "[comm] rank 1 failed, in broadcast \"block.2\" (operation 0)");
        return;
      }
      std::this_thread::sleep_for(milliseconds(250));
      throw std::runtime_error("rank 1 is killed");
    });
  };
  EXPECT_THROW(run(), std::runtime_error);
}

// Of a group that is begun nothing may be left open, or launched on some ranks.
TEST_F(Nccl, AnErrorInTheMiddleOfAGroupIsHeardOfByAll) {
  may_abort_ = 2;
  run_nccl_ranks(2, fake_options(), [](Communicator& comm) {
    RankBuffer small(8, DType::fp32, kRanksGpu), large(16, DType::fp32, kRanksGpu);
    RankBuffer small_all(16, DType::fp32, kRanksGpu), large_all(32, DType::fp32, kRanksGpu);
    comm.broadcast(small.piece(), 0, "block.0").wait();
    if (comm.rank() == 1) FakeNccl::fail_second_calls_of(1);
    comm.barrier("both").wait();
    const std::string seen = outcome_of(comm.all_gather_into(
        {{small.read(), small_all.piece()}, {large.read(), large_all.piece()}}, "block.1"));
    expect_said(seen, comm.rank() == 1
                          ? "[comm] NCCL failed in an all-gather, in all_gather \"block.1\" "
                            "(operation 2): a fault that a test has made (result 2: no memory for "
                            "another channel)"
                          : "[comm] rank 1 ends with an error");
    const std::string next = outcome_of(comm.broadcast(small.piece(), 0, "block.2"));
    expect_said(next, comm.rank() == 1 ? "no memory" : "rank 1 ends with an error");
  });
}

// Rank 0 has launched its kernel, which waits for rank 1 for ever, and has nothing more to launch.
// Its host waits for the kernel; the order hears meanwhile that rank 1 has failed.
TEST_F(Nccl, AKernelEndsWhereARankHasFailed) {
  may_abort_ = 2;
  try {
    run_nccl_ranks(2, fake_options(), [](Communicator& comm) {
      RankBuffer buffer(100, DType::fp32, kRanksGpu);
      comm.broadcast(buffer.piece(), 0, "block.1").wait();
      if (comm.rank() == 1) FakeNccl::fail_launches_of(1);
      comm.barrier("both").wait();
      const Handle last = comm.broadcast(buffer.piece(), 0, "block.2");
      if (comm.rank() == 1) return last.wait();
      expect_said(outcome_of(last), "rank 1 ends with an error");  // over, without a result
      expect_said(outcome_of(comm.broadcast(buffer.piece(), 0, "block.3")), "rank 1 ends");
      expect_said(outcome_of(comm.barrier("by way of the host")), "rank 1 ends");
    });
    FAIL() << "rank 1 has thrown";
  } catch (const CommError& error) {
    expect_said(error.what(), "the network has gone away");
  }
}

// A rank that leaves by an exception takes nobody's time.
TEST_F(Nccl, ARankThatThrowsEndsTheOthers) {
  may_abort_ = 3;
  const auto run = [] {
    run_nccl_ranks(3, fake_options(), [](Communicator& comm) {
      RankBuffer buffer(100, DType::fp32, kRanksGpu);
      comm.broadcast(buffer.piece(), 0, "block.1").wait();
      if (comm.rank() == 2) throw std::runtime_error("rank 2 has had enough");
      comm.broadcast(buffer.piece(), 0, "block.2").wait();
    });
  };
  EXPECT_THROW(run(), std::runtime_error);
}

TEST_F(Nccl, NobodyWhoHasNoLibraryGetsACommunicator) {
  if (nccl_library() != nullptr) GTEST_SKIP() << "this process has NCCL";
  run_ranks(2, {}, [](Communicator& threads) {
    try {
      make_nccl_communicator(threads.make_sibling(), kRanksGpu, {});
      FAIL();
    } catch (const ConfigError& error) {
      expect_said(error.what(), "has not loaded NCCL");
    }
  });
}

TEST_F(Nccl, OneThatIsNotUsedCostsNothing) {
  const int alive = FakeNccl::alive();
  run_nccl_ranks(2, fake_options(), [&](Communicator& comm) {
    const auto sibling = comm.make_sibling();
    comm.barrier("host").wait();
    EXPECT_EQ(FakeNccl::alive(), alive);
  });
}

}  // namespace
}  // namespace zeroshard
