#include "zeroshard/comm/c10d.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/c10d_transport.h"
#include "zeroshard/comm/call.h"
#include "zeroshard/comm/greeting.h"
#include "zeroshard/comm/rank_sum.h"
#include "zeroshard/comm/transport.h"
#include "zeroshard/device/stream.h"

namespace zeroshard {
namespace {

using Round = Transport::Round;

constexpr std::int64_t kPartBytes = 1 << 20;  // of one rank: stays in the cache until it is summed

const std::byte* bytes_at(const void* data, std::int64_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* bytes_at(void* data, std::int64_t offset) {
  return static_cast<std::byte*>(data) + offset;
}

// It sums a bucket part by part: while one part is summed the next one is on its way.
class PartSum {
 public:
  PartSum(Transport& transport, const Call& call, std::size_t pair)
      : transport_(transport), call_(call), pair_(call.reduces[pair]) {
    const std::int64_t element = bytes_of(pair_.in.dtype);
    part_count_ = std::min(pair_.out.count, kPartBytes / element);
    const auto slot_bytes = part_count_ * element * transport_.world_size();
    for (auto& slot : slots_) slot.resize(static_cast<std::size_t>(slot_bytes));
  }

  void run() {
    std::array<Round, 2> rounds;
    post(0, rounds[0]);
    for (std::int64_t part = 0; part * part_count_ < pair_.out.count; ++part) {
      const auto now = static_cast<std::size_t>(part % 2);
      post(part + 1, rounds[1 - now]);
      transport_.wait(rounds[now], call_.tag);
      sum(part);
    }
  }

 private:
  std::int64_t begin_of(std::int64_t part) const { return part * part_count_; }
  std::int64_t count_of(std::int64_t part) const {
    return std::clamp<std::int64_t>(pair_.out.count - begin_of(part), 0, part_count_);
  }
  // This part of what `rank` gets lies here in the own input.
  const std::byte* input_for(int rank, std::int64_t part) const {
    return bytes_at(pair_.in.data,
                    (rank * pair_.out.count + begin_of(part)) * bytes_of(pair_.in.dtype));
  }
  std::byte* slot_of(int rank, std::int64_t part) {
    std::vector<std::byte>& slot = slots_[static_cast<std::size_t>(part % 2)];
    return bytes_at(slot.data(), rank * part_count_ * bytes_of(pair_.in.dtype));
  }

  void post(std::int64_t part, Round& round) {
    transport_.exchange(
        count_of(part) * bytes_of(pair_.in.dtype), [&](int peer) { return input_for(peer, part); },
        [&](int peer) { return slot_of(peer, part); }, round);
  }

  void sum(std::int64_t part) {
    std::vector<const void*> addends;
    for (int rank = 0; rank < transport_.world_size(); ++rank) {
      const bool own = rank == transport_.rank();
      addends.push_back(own ? input_for(rank, part) : slot_of(rank, part));
    }
    Piece out = pair_.out;
    out.data = bytes_at(out.data, begin_of(part) * bytes_of(out.dtype));
    out.count = count_of(part);
    sum_in_rank_order(addends, pair_.in.dtype, out, call_.reduce_options);
  }

  Transport& transport_;
  const Call& call_;
  const ReducePair& pair_;
  std::int64_t part_count_ = 0;
  std::array<std::vector<std::byte>, 2> slots_;
};

// A side stream of its own runs its calls in order, so that the caller never waits. The stream, and
// the ranks' way to each other, are made by the first call: a communicator that nobody uses costs
// nothing.
class C10dCommunicator final : public QueuedCommunicator {
 public:
  C10dCommunicator(std::shared_ptr<C10dGroup> group, const C10dOptions& options)
      : group_(std::move(group)), lane_(group_->add_lane()), options_(options) {}

  int rank() const override { return group_->rank(); }
  int world_size() const override { return group_->world_size(); }
  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<C10dCommunicator>(group_, options_);
  }

 private:
  void submit(Call call) override {
    refuse_device_memory(call, "c10d");
    call.completion->set_abandon([this] { abort(); });
    if (!worker_) worker_ = Stream::make(kCpu);
    worker_->run([this, call = std::move(call)] { run(call); });
  }

  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    transport_ ? transport_->abort() : group_->abort();
  }

  // Everything from here on runs on the worker.
  void run(const Call& call) {
    try {
      if (failure_) std::rethrow_exception(failure_);
      if (!transport_) meet(call.tag);
      agree_on(call);
      work_on(call);
      call.completion->finish();
    } catch (...) {
      failure_ = std::current_exception();
      call.completion->finish(failure_);
    }
  }

  // Memory that all ranks can share is several times faster than any group's own messages.
  void meet(const OperationTag& tag) {
    std::unique_ptr<Transport> made = std::make_unique<C10dTransport>(group_, lane_, options_.comm);
    if (options_.shares_memory && world_size() > 1) {
      if (auto shared = share_memory(*made, options_.comm, tag)) made = std::move(shared);
    }
    const std::lock_guard lock(mutex_);
    transport_ = std::move(made);
    if (aborted_) transport_->abort();
  }

  // This is a barrier too: nobody goes on before everybody is here.
  void agree_on(const Call& call) {
    const Greeting mine = greeting_of(call);
    greetings_.assign(static_cast<std::size_t>(world_size()), mine);
    Round round;
    transport_->exchange(
        sizeof(Greeting), [&](int) { return &mine; },
        [&](int peer) { return &greetings_[static_cast<std::size_t>(peer)]; }, round);
    transport_->wait(round, call.tag);
    const std::vector<bool> all_arrived(greetings_.size(), true);
    const std::exception_ptr difference = disagreement_of(greetings_, all_arrived);
    if (difference) std::rethrow_exception(difference);
  }

  void work_on(const Call& call) {
    switch (call.tag.operation) {
      case Operation::all_gather: return gather(call);
      case Operation::reduce_scatter: return reduce_scatter(call);
      case Operation::all_reduce: return all_reduce_piece(call);
      case Operation::broadcast: return broadcast_piece(call);
      case Operation::barrier: return;
    }
  }

  // The bytes go straight from the shards into the full buffers.
  void gather(const Call& call) {
    Round round;
    for (const GatherPair& pair : call.gathers) {
      const std::int64_t bytes = pair.in.bytes();
      const auto part_of = [&](int peer) { return bytes_at(pair.out.data, peer * bytes); };
      transport_->exchange(
          bytes, [&](int) { return pair.in.data; }, part_of, round);
      void* const own = part_of(rank());
      if (bytes > 0 && own != pair.in.data) {
        std::memcpy(own, pair.in.data, static_cast<std::size_t>(bytes));
      }
    }
    transport_->wait(round, call.tag);
  }

  void reduce_scatter(const Call& call) {
    for (std::size_t pair = 0; pair < call.reduces.size(); ++pair) {
      if (call.reduces[pair].out.count > 0) PartSum(*transport_, call, pair).run();
    }
  }

  void all_reduce_piece(const Call& call) {
    std::vector<const void*> addends;
    if (fits_greeting(call)) {
      for (const Greeting& greeting : greetings_) addends.push_back(greeting.payload.data());
      return combine(addends, call.piece, call.op);
    }
    const std::int64_t bytes = call.piece.bytes();
    std::vector<std::byte> all(static_cast<std::size_t>(bytes * world_size()));
    const auto of_rank = [&](int peer) { return bytes_at(all.data(), peer * bytes); };
    Round round;
    transport_->exchange(
        bytes, [&](int) { return call.piece.data; }, of_rank, round);
    std::memcpy(of_rank(rank()), call.piece.data, static_cast<std::size_t>(bytes));
    transport_->wait(round, call.tag);  // nobody reads the piece any more
    for (int peer = 0; peer < world_size(); ++peer) addends.push_back(of_rank(peer));
    combine(addends, call.piece, call.op);
  }

  void broadcast_piece(const Call& call) {
    Round round;
    transport_->broadcast(call.piece, call.root, round);
    transport_->wait(round, call.tag);
  }

  const std::shared_ptr<C10dGroup> group_;
  const int lane_;
  const C10dOptions options_;

  std::mutex mutex_;  // the worker makes the transport while abort() may look for it
  bool aborted_ = false;
  std::unique_ptr<Transport> transport_;

  // The worker alone uses these.
  std::vector<Greeting> greetings_;  // of the call under way, by rank
  std::exception_ptr failure_;

  std::optional<Stream> worker_;  // last: its work uses all the above
};

}  // namespace

std::unique_ptr<Communicator> make_c10d_communicator(c10::intrusive_ptr<c10d::Backend> group,
                                                     const C10dOptions& options) {
  return std::make_unique<C10dCommunicator>(std::make_shared<C10dGroup>(std::move(group)), options);
}

}  // namespace zeroshard
