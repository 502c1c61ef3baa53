// One fault per run, in a program that ends as a user's does: zeroshard run --ranks N mpi_faults
// CASE check_faults.py runs it and judges what the ranks said.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/join.h"

namespace zeroshard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<Communicator> with_timeout(milliseconds timeout) {
  return join_ranks({.timeout = timeout});
}

// Gathers without end; on one rank something happens in the middle of a payload.
void gather_until(Communicator& comm, int rank, const std::function<void()>& happens) {
  std::vector<float> shard(2 << 20);
  std::vector<float> full(shard.size() * static_cast<std::size_t>(comm.world_size()));
  const auto count = static_cast<std::int64_t>(shard.size());
  for (int i = 0; i < 1000; ++i) {
    if (i == 3) std::this_thread::sleep_for(milliseconds(700));  // for rank 0 to hear where all are
    const Handle bulk = comm.all_gather_into(
        {{{shard.data(), count}, {full.data(), count * comm.world_size()}}}, "bulk");
    if (i == 3 && comm.rank() == rank) {
      std::this_thread::sleep_for(milliseconds(3));
      happens();
    }
    bulk.wait();
  }
}

// A good call is under way when the ranks part; the calls after must fail too.
void different_labels() {
  const auto comm = with_timeout(seconds(60));
  std::vector<float> shard(1 << 18), full(shard.size() * 8);
  const auto count = static_cast<std::int64_t>(shard.size());
  const Handle good = comm->all_gather_into(
      {{{shard.data(), count}, {full.data(), count * comm->world_size()}}}, "good");
  const Handle bad = comm->barrier(comm->rank() == 1 ? "block.7" : "block.3");
  const Handle later = comm->barrier("later");
  good.wait();
  try {
    later.wait();
    throw std::logic_error("a later call went on");
  } catch (const CommError&) {
  }
  try {
    comm->barrier("after").wait();
    throw std::logic_error("a call after the failure went on");
  } catch (const CommError&) {
  }
  bad.wait();
}

void different_sizes() {
  const auto comm = with_timeout(seconds(60));
  std::vector<float> numbers(1000);
  comm->all_reduce({numbers.data(), 900 + comm->rank()}, ReduceOp::sum, "norm").wait();
}

void a_stuck_rank() {
  const auto comm = with_timeout(seconds(2));
  comm->barrier("start").wait();
  if (comm->rank() == 1) std::this_thread::sleep_for(seconds(5));
  comm->barrier("step").wait();
}

// MPI holds on to memory that the program is about to free.
void a_stopped_rank(int rank) {
  const auto comm = with_timeout(seconds(5));
  gather_until(*comm, rank, [] { kill(getpid(), SIGSTOP); });
}

void a_killed_rank(int rank) {
  const auto comm = with_timeout(seconds(60));
  gather_until(*comm, rank, [] { kill(getpid(), SIGKILL); });
}

// While nobody is in an operation: it is noticed at the next.
void a_rank_killed_between_operations() {
  const auto comm = with_timeout(seconds(60));
  comm->barrier("start").wait();
  std::this_thread::sleep_for(milliseconds(300));  // for all to be through
  if (comm->rank() == 1) kill(getpid(), SIGKILL);
  std::this_thread::sleep_for(milliseconds(500));
  comm->barrier("step").wait();
}

// One has less data than the others, say.
void a_rank_that_ends_early() {
  const auto comm = with_timeout(seconds(60));
  for (int i = 0; i < (comm->rank() == 1 ? 3 : 4); ++i) comm->barrier("step").wait();
}

void for_ever() {
  const auto comm = with_timeout(seconds(60));
  comm->barrier("start").wait();
  fmt::print("rank {}: ready\n", comm->rank());
  std::fflush(stdout);
  gather_until(*comm, 0, [] { std::this_thread::sleep_for(seconds(60)); });
}

void an_exception() {
  const auto comm = with_timeout(seconds(60));
  comm->barrier("start").wait();
  if (comm->rank() == 1) throw std::runtime_error("the data ran out");
  comm->barrier("step").wait();
}

// Its memory goes before the communicator does.
void an_exception_under_way() {
  const auto comm = with_timeout(seconds(60));
  comm->barrier("start").wait();
  gather_until(*comm, 1, [] { throw std::runtime_error("the data ran out"); });
}

void a_late_third() {
  const auto comm = with_timeout(seconds(60));
  comm->barrier("start").wait();
  if (comm->rank() == 2) std::this_thread::sleep_for(seconds(30));
  comm->barrier(comm->rank() == 1 ? "block.7" : "block.3").wait();
}

// What a data loader does; the child outlives the rank.
void a_killed_rank_with_a_child() {
  const auto comm = with_timeout(seconds(60));
  gather_until(*comm, 1, [] {
    if (fork() == 0) {
      sleep(8);
      _exit(0);
    }
    kill(getpid(), SIGKILL);
  });
}

// Made before anything else of ours, and so destroyed last.
std::unique_ptr<Communicator> global_communicator;
void a_global_communicator() {
  global_communicator = with_timeout(seconds(20));
  global_communicator->barrier("start").wait();
}

void device_memory() {
  const auto comm = with_timeout(seconds(60));
  float number = 0;
  comm->broadcast({&number, 1, DType::fp32, DeviceKind::cuda}, 0, "weights").wait();
}

void two_at_once() {
  const auto first = with_timeout(seconds(60));
  const auto second = with_timeout(seconds(60));
}

milliseconds cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::duration_cast<milliseconds>(seconds(time.tv_sec) +
                                                    std::chrono::microseconds(time.tv_usec));
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// First with nothing to do, then with a rank that comes late: breaks, but no call without end.
void idle() {
  const auto comm = with_timeout(seconds(60));
  comm->barrier("start").wait();
  const milliseconds before = cpu_time();
  std::this_thread::sleep_for(seconds(1));
  const milliseconds resting = cpu_time() - before;
  if (comm->rank() == 1) std::this_thread::sleep_for(seconds(1));
  std::vector<Handle> more;  // than are under way at once
  for (int i = 0; i < 8; ++i) more.push_back(comm->barrier("end"));
  for (const Handle& handle : more) handle.wait();
  const milliseconds waiting = cpu_time() - before - resting;
  fmt::print("rank {}: resting {} waiting {} ms\n", comm->rank(), resting.count(), waiting.count());
}

void run(const std::string& name) {
  if (name == "different_labels") return different_labels();
  if (name == "different_sizes") return different_sizes();
  if (name == "a_stuck_rank") return a_stuck_rank();
  if (name == "a_stopped_rank") return a_stopped_rank(1);
  if (name == "a_stopped_rank_0") return a_stopped_rank(0);
  if (name == "a_killed_rank") return a_killed_rank(1);
  if (name == "a_killed_rank_0") return a_killed_rank(0);
  if (name == "a_rank_killed_between_operations") return a_rank_killed_between_operations();
  if (name == "a_rank_that_ends_early") return a_rank_that_ends_early();
  if (name == "for_ever") return for_ever();
  if (name == "an_exception") return an_exception();
  if (name == "an_exception_under_way") return an_exception_under_way();
  if (name == "a_late_third") return a_late_third();
  if (name == "a_killed_rank_with_a_child") return a_killed_rank_with_a_child();
  if (name == "a_global_communicator") return a_global_communicator();
  if (name == "device_memory") return device_memory();
  if (name == "two_at_once") return two_at_once();
  if (name == "idle") return idle();
  throw ConfigError({.what = "no such case", .value = name});
}

}  // namespace
}  // namespace zeroshard

int main(int argc, char** argv) {
  return zeroshard::rank_main([&] {
    zeroshard::run(argc > 1 ? argv[1] : "");
    return 0;
  });
}
