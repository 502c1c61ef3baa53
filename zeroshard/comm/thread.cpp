#include "zeroshard/comm/thread.h"

#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/comm/call.h"
#include "zeroshard/comm/meeting.h"
#include "zeroshard/comm/rank_sum.h"
#include "zeroshard/device/stream.h"

namespace zeroshard {
namespace {

using Calls = MeetingPlace::Calls;

void gather(const Calls& calls, const Call& own) {
  for (std::size_t pair = 0; pair < own.gathers.size(); ++pair) {
    auto* out = static_cast<std::byte*>(own.gathers[pair].out.data);
    const auto bytes = static_cast<std::size_t>(own.gathers[pair].in.bytes());
    for (std::size_t rank = 0; rank < calls.size() && bytes > 0; ++rank) {
      const void* in = calls[rank]->gathers[pair].in.data;
      if (in != out + rank * bytes) std::memcpy(out + rank * bytes, in, bytes);
    }
  }
}

void reduce_scatter(const Calls& calls, const Call& own, int rank) {
  for (std::size_t pair = 0; pair < own.reduces.size(); ++pair) {
    const ReducePair& mine = own.reduces[pair];
    const std::int64_t offset = rank * mine.out.count * bytes_of(mine.in.dtype);
    std::vector<const void*> addends;
    for (const Call* call : calls) {
      addends.push_back(static_cast<const std::byte*>(call->reduces[pair].in.data) + offset);
    }
    if (mine.out.count > 0) {
      sum_in_rank_order(addends, mine.in.dtype, mine.out, own.reduce_options);
    }
  }
}

// One rank's end. A side stream of its own runs its calls in order, so that the caller never waits.
class ThreadCommunicator final : public QueuedCommunicator {
 public:
  ThreadCommunicator(int rank, int world_size, MeetingPlace& place)
      : rank_(rank), world_size_(world_size), place_(place) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<ThreadCommunicator>(rank_, world_size_, place_.sibling(siblings_++));
  }

 private:
  void submit(Call call) override {
    call.completion->set_abandon([this] { place_.abort(rank_, "an exception has ended it"); });
    if (!worker_) worker_ = Stream::make(kCpu);
    worker_->run([this, call = std::move(call)] { run(call); });
  }

  void run(const Call& call) {
    try {
      // Others read the piece while this rank works, so an in-place result is stored only after.
      std::vector<std::byte> result;
      place_.meet(rank_, call, [&](const Calls& calls) { result = work_on(calls, call); });
      if (!result.empty()) std::memcpy(call.piece.data, result.data(), result.size());
      call.completion->finish();
    } catch (...) {
      call.completion->finish(std::current_exception());
    }
  }

  std::vector<std::byte> work_on(const Calls& calls, const Call& call) const {
    switch (call.tag.operation) {
      case Operation::all_gather: gather(calls, call); return {};
      case Operation::reduce_scatter: reduce_scatter(calls, call, rank_); return {};
      case Operation::all_reduce: return all_reduced(calls, call);
      case Operation::broadcast: return received(calls, call);
      case Operation::barrier: return {};
    }
    return {};
  }

  static std::vector<std::byte> all_reduced(const Calls& calls, const Call& call) {
    std::vector<std::byte> result(static_cast<std::size_t>(call.piece.bytes()));
    std::vector<const void*> addends;
    for (const Call* each : calls) addends.push_back(each->piece.data);
    Piece into = call.piece;
    into.data = result.data();
    combine(addends, into, call.op);
    return result;
  }

  std::vector<std::byte> received(const Calls& calls, const Call& call) const {
    if (call.root == rank_) return {};
    const auto* from =
        static_cast<const std::byte*>(calls[static_cast<std::size_t>(call.root)]->piece.data);
    return {from, from + call.piece.bytes()};
  }

  const int rank_;
  const int world_size_;
  MeetingPlace& place_;
  std::size_t siblings_ = 0;
  std::optional<Stream> worker_;  // made by the first call; last, since its work uses all the above
};

// The first exception of any rank; later ones are usually its echo.
class FirstFailure {
 public:
  bool record(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_) return false;
    error_ = std::move(error);
    return true;
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

void run_ranks(int world_size, const CommOptions& options,
               const std::function<void(Communicator&)>& body) {
  ZS_CHECK_GE(world_size, 1, "ranks to run");
  MeetingPlace place(world_size, options);
  FirstFailure failure;
  const auto run_rank = [&](int rank) {
    const RankScope scope(rank);
    ThreadCommunicator comm(rank, world_size, place);
    try {
      body(comm);
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      if (failure.record(error)) place.abort(rank, message_of(error));
    }
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank) ranks.emplace_back(run_rank, rank);
  for (std::thread& rank : ranks) rank.join();
  failure.rethrow();
}

}  // namespace zeroshard
