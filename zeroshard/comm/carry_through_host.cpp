#include "zeroshard/comm/carry_through_host.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/base/unwinding.h"
#include "zeroshard/comm/carry_slot.h"
#include "zeroshard/comm/faults.h"

namespace zeroshard {
namespace {

// A wait for other ranks looks up this often whether the communicator was abandoned meanwhile.
constexpr std::chrono::milliseconds kLook{20};

struct CarriedCall {
  Call call;
  Event ready;  // the caller's stream at the time of the call
};
using CallPtr = std::shared_ptr<const CarriedCall>;

// The slots are used in turn, so that the oldest part's is the next to become free.
struct CarryRing {
  CarryRing(const CarryOptions& options, int rank, int world_size)
      : streams(options.device), slot_bytes(slot_bytes_for(options.part_bytes, world_size)) {
    for (int i = 0; i < options.slots; ++i)
      slots.emplace_back(streams, rank, world_size, slot_bytes);
  }

  CarryStreams streams;
  std::int64_t slot_bytes;
  std::deque<CarrySlot> slots;
};

struct PartUnderWay {
  CallPtr owner;
  Part part;
  CarrySlot* slot = nullptr;
  Handle sent = {};
  bool is_sent = false;
};

class CarryingCommunicator final : public CallCommunicator {
 public:
  CarryingCommunicator(std::unique_ptr<Communicator> inner, const CarryOptions& options)
      : options_(options), inner_(std::move(inner)) {}

  // Waits for calls that are under way, unless an exception is on its way out: then the others may
  // wait for this rank for ever, and it must not wait for them.
  ~CarryingCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      abandoned_ = abandoned_ || static_cast<bool>(unwinding_);
    }
    queued_.notify_one();
    if (worker_.joinable()) worker_.join();
  }

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }

  std::unique_ptr<Communicator> make_sibling() override {
    return carry_through_host(inner_->make_sibling(), options_);
  }

 private:
  // Only one thread at a time makes calls, so while none is open the worker leaves inner_ alone.
  Handle start(Call call) override {
    const bool on_device = uses_device(call);
    Handle handle(call.completion);
    Event ready;
    call.completion->set_abandon([this] { abandon(); });
    if (on_device) ready.record(Stream::current(options_.device));
    {
      const std::lock_guard lock(mutex_);
      if (!failure_ && last_end_.failed()) failure_ = last_end_.point()->failure()->error;
      if (failure_) {
        call.completion->finish(failure_);
        return handle;
      }
      if (on_device || open_calls_ > 0) {
        ++open_calls_;
        if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
        queue_.push_back(std::make_shared<CarriedCall>(CarriedCall{std::move(call), ready}));
        queued_.notify_one();
        return handle;
      }
    }
    return pass_on(*inner_, call);
  }

  // Everything from here on runs on the worker.
  void work() {
    const RankScope scope(rank());
    while (wait_for_something()) {
      try {
        while (under_way_.size() < static_cast<std::size_t>(options_.slots) && begin_part()) {
        }
        for (PartUnderWay& part : under_way_) {
          if (!part.is_sent) send(part);
        }
        finish_oldest();
      } catch (...) {
        fail(std::current_exception());
      }
    }
    if (abandoned()) fail(std::make_exception_ptr(left_behind()));
  }

  // Sleeps while there is nothing to do; false when it is time to go.
  bool wait_for_something() {
    std::unique_lock lock(mutex_);
    queued_.wait(lock, [&] { return closing_ || abandoned_ || open_calls_ > 0; });
    return !abandoned_ && open_calls_ > 0;
  }

  // Starts the copies down of the next part in order; false where none is waiting.
  bool begin_part() {
    if (parts_.empty() && !take_call()) return false;
    CarrySlot& slot = ring_->slots[next_slot_++ % ring_->slots.size()];
    under_way_.push_back({taken_.back(), std::move(parts_.front()), &slot});
    parts_.pop_front();
    slot.bring_down(under_way_.back().owner->call, under_way_.back().part);
    return true;
  }

  bool take_call() {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) return false;
      taken_.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    // The ring is made here and not in the constructor: a program without device memory
    // needs no device.
    if (!ring_) ring_ = std::make_unique<CarryRing>(options_, rank(), world_size());
    const CarriedCall& next = *taken_.back();
    // This is enough for the copies up as well: a part is sent only after the down stream
    // has come to it.
    ring_->streams.down.wait(next.ready);
    std::vector<Part> parts = cut_into_parts(next.call, world_size(), ring_->slot_bytes);
    std::ranges::move(parts, std::back_inserter(parts_));
    return true;
  }

  void send(PartUnderWay& part) {
    part.sent = part.slot->send(*inner_, part.owner->call, part.part);
    part.is_sent = true;
  }

  void finish_oldest() {
    PartUnderWay& oldest = under_way_.front();
    while (!oldest.sent.issued_within(kLook)) {
      if (abandoned()) throw left_behind();
    }
    oldest.sent.wait();
    oldest.slot->bring_up(oldest.owner->call, oldest.part);
    if (oldest.part.last) finish_call(oldest.slot->brought_up());
    under_way_.pop_front();
  }

  // Of a call's copies up the last part's are the last, all being on one stream. They are issued,
  // and nobody waits for them here: the handle's owner does, or its stream.
  void finish_call(const Event& brought_up) {
    const CallPtr done = std::move(taken_.front());
    taken_.pop_front();
    {
      const std::lock_guard lock(mutex_);
      --open_calls_;
      last_end_ = brought_up;
    }
    done->call.completion->finish_behind(brought_up);
  }

  // Nothing may touch the calls' memory any more when their handles say that they are over.
  void fail(const std::exception_ptr& error) {
    for (const PartUnderWay& part : under_way_) {
      while (!part.sent.issued_within(kLook) && !abandoned()) {
      }
    }
    if (ring_) quiet(ring_->streams.down), quiet(ring_->streams.up);
    under_way_.clear();
    parts_.clear();
    std::deque<CallPtr> failed = std::exchange(taken_, {});
    {
      const std::lock_guard lock(mutex_);
      failure_ = error;
      std::ranges::move(std::exchange(queue_, {}), std::back_inserter(failed));
      open_calls_ = 0;
    }
    for (const CallPtr& call : failed) call->call.completion->finish(error);
  }

  static void quiet(const Stream& stream) {
    try {
      stream.synchronize();
    } catch (...) {  // the first error is being reported already
    }
  }

  void abandon() {
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
    }
    queued_.notify_one();
  }

  bool abandoned() {
    const std::lock_guard lock(mutex_);
    return abandoned_;
  }

  const CarryOptions options_;
  const Unwinding unwinding_;

  std::mutex mutex_;
  std::condition_variable queued_;
  std::deque<CallPtr> queue_;
  int open_calls_ = 0;  // queued or with the worker
  std::exception_ptr failure_;
  Event last_end_;  // of the last call that was finished: its copies up may fail after that
  bool closing_ = false;
  bool abandoned_ = false;

  // The worker alone uses these. The ring outlives inner_, which may be at it to the end.
  std::unique_ptr<CarryRing> ring_;
  std::size_t next_slot_ = 0;
  std::deque<CallPtr> taken_;           // not finished yet, in order
  std::deque<Part> parts_;              // of the last of them: not begun yet
  std::deque<PartUnderWay> under_way_;  // in order

  std::unique_ptr<Communicator> inner_;
  std::thread
      worker_;  // started by the first call that needs it; last, since it uses all the above
};

}  // namespace

std::unique_ptr<Communicator> carry_through_host(std::unique_ptr<Communicator> host_only,
                                                 const CarryOptions& options) {
  ZS_CHECK_GE(options.part_bytes, 1, "bytes of a part");
  ZS_CHECK_GE(options.slots, 1, "slots of the ring");
  return std::make_unique<CarryingCommunicator>(std::move(host_only), options);
}

}  // namespace zeroshard
