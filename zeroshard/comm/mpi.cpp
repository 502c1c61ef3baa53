#include "zeroshard/comm/mpi.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/comm/faults.h"
#include "zeroshard/comm/mpi_call.h"
#include "zeroshard/comm/mpi_control.h"
#include "zeroshard/comm/mpi_thread.h"

namespace zeroshard {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using MpiClock = std::chrono::steady_clock;

// Enough for a gather and a reduction to overlap, and for greetings to run ahead of payloads.
constexpr std::size_t kCallsUnderWay = 4;

// How long polling goes on without a break when nothing happens, and the length of the breaks.
// While a payload moves all ranks are at it, and a break would cost bandwidth; a greeting is waited
// for as long as the slowest rank computes, on cores that may be needed for that.
constexpr microseconds kSpinForPayload{2000};
constexpr microseconds kSpinForGreeting{100};
constexpr microseconds kBreak{50};

// How long after the end of a rank's program its last messages may still be on their way, and how
// long after an error of MPI's the control channel may need to say which rank it is about.
constexpr milliseconds kPatienceWithEnded{2000};
constexpr milliseconds kPatienceForLoss{1000};

// After a failure: for the other ranks to come to their end as well, so that mpirun does not stop
// them before they have said what they saw.
constexpr milliseconds kPatienceAfterFailure{1000};

void refuse_device_memory(const Call& call) {
  const auto refuse = [&](const ConstPiece& piece) {
    if (piece.device == DeviceKind::cpu) return;
    throw CommError(
        {.what = "the mpi backend moves CPU memory only",
         .value = fmt::format("{} of {} memory", describe(call.tag), name_of(piece.device)),
         .remedy = "tell join_ranks() the device, or use stage_device_memory()"});
  };
  refuse(call.piece.read());
  for (const GatherPair& pair : call.gathers) refuse(pair.in), refuse(pair.out.read());
  for (const ReducePair& pair : call.reduces) refuse(pair.in), refuse(pair.out.read());
}

class MpiCommunicator final : public QueuedCommunicator {
 public:
  MpiCommunicator(const CommOptions& options, const MpiTuning& tuning, MpiThread& thread)
      : thread_(thread),
        rank_(thread.rank()),
        world_size_(thread.world_size()),
        timeout_(options.timeout),
        chunk_bytes_(tuning.chunk_bytes / 4 * 4),  // so that staged parts are aligned
        board_(thread.channel() == nullptr ? nullptr : &thread.channel()->board()) {
    thread_.begin([this](MpiLink& link) { return work(link); });
  }

  // Waits for calls that are under way, unless an exception is on its way out: then the others may
  // wait for this rank for ever, and it must not wait for them.
  ~MpiCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      abandoned_ = std::uncaught_exceptions() > exceptions_at_birth_;
    }
    queued_.notify_one();
    thread_.wait();
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

 private:
  void submit(Call call) override {
    refuse_device_memory(call);
    {
      const std::lock_guard lock(mutex_);
      if (!failure_ && board_ != nullptr) failure_ = loss_seen_in(call.tag, *board_);
      if (failure_) return call.completion->finish(failure_);
      queue_.push_back(std::move(call));
    }
    queued_.notify_one();
  }

  // From here on, all runs on the MPI thread. Returns the patience MpiThread asks for.
  milliseconds work(MpiLink& link) {
    const RankScope scope(rank_);
    while (wait_for_something()) {
      try {
        take_calls(link);
        poll(link);
        advance_calls();
        note_status();
        pause_if_nothing_moves();
      } catch (...) {
        give_up(link, calls_.begin(), std::current_exception());
      }
    }
    if (abandoned_ && !failure_) {
      if (thread_.channel() != nullptr) thread_.channel()->say_failed();
      give_up(link, calls_.begin(), left_behind());
    }
    if (!failure_) return timeout_;
    return released_ && link.forget() ? kPatienceAfterFailure : MpiThread::kBroken;
  }

  // Sleeps while nothing is queued or under way; false when it is time to go.
  bool wait_for_something() {
    std::unique_lock lock(mutex_);
    queued_.wait(lock, [&] { return closing_ || !queue_.empty() || !calls_.empty(); });
    return !abandoned_ && (!queue_.empty() || !calls_.empty());
  }

  void take_calls(MpiLink& link) {
    while (calls_.size() < kCallsUnderWay) {
      std::unique_lock lock(mutex_);
      if (queue_.empty()) return;
      Call call = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (calls_.empty()) moved_at_ = MpiClock::now();
      calls_.emplace_back(std::move(call), link).greet();
    }
  }

  // MPI may see a rank's end before the control channel does, but does not say whose it is.
  void poll(MpiLink& link) {
    try {
      if (link.poll() > 0) moved_at_ = MpiClock::now();
    } catch (const CommError&) {
      if (board_ == nullptr || calls_.empty()) throw;
      board_->wait_for_loss(kPatienceForLoss);
      throw_if_lost();
      throw;
    }
  }

  void throw_if_lost() const {
    if (board_ == nullptr || !board_->lost() || calls_.empty()) return;
    std::rethrow_exception(loss_seen_in(calls_.front().tag(), *board_));
  }

  // For the others to know where this rank is.
  void note_status() {
    if (board_ == nullptr) return;
    if (calls_.empty()) {
      status_.under_way = false;
    } else if (!status_.under_way || status_.tag.sequence != calls_.front().tag().sequence) {
      status_ = calls_.front().status();
    } else {
      return;
    }
    board_->note(status_);
  }

  // Payloads begin in order, so that nothing begins behind a call the ranks disagree about.
  void advance_calls() {
    for (auto call = calls_.begin(); call != calls_.end();) {
      if (!call->begun()) {
        if (!call->all_greeted()) return;
        if (!begin(call)) return;
      }
      if (!call->advance()) {
        ++call;
        continue;
      }
      spare_staging_.push_back(call->take_staging());
      call->finish();
      call = calls_.erase(call);
    }
  }

  using CallAt = std::list<MpiCall>::iterator;

  // False where the ranks disagree: this call and later ones fail; earlier ones go on, all ranks
  // being in them.
  bool begin(CallAt call) {
    try {
      MpiStaging staging;
      if (!spare_staging_.empty()) {
        staging = std::move(spare_staging_.back());
        spare_staging_.pop_back();
      }
      call->begin(chunk_bytes_, std::move(staging));
      return true;
    } catch (const CommError&) {
      fail_from(call, std::current_exception());
      return false;
    }
  }

  void pause_if_nothing_moves() {
    if (calls_.empty()) return;
    throw_if_lost();
    const auto still = MpiClock::now() - moved_at_;
    if (still > kPatienceWithEnded) throw_if_waiting_for_ended();
    if (still > timeout_) throw_too_late();
    const bool moving = calls_.front().begun();
    if (still < (moving ? kSpinForPayload : kSpinForGreeting)) return std::this_thread::yield();
    std::unique_lock lock(mutex_);
    const auto room = [&] { return !queue_.empty() && calls_.size() < kCallsUnderWay; };
    queued_.wait_for(lock, kBreak, [&] { return abandoned_ || room(); });
  }

  void throw_if_waiting_for_ended() const {
    if (board_ == nullptr) return;
    for (const int rank : calls_.front().waits_for()) {
      if (board_->ended(rank)) throw rank_ended(rank, calls_.front().tag());
    }
  }

  [[noreturn]] void throw_too_late() const {
    const MpiCall& call = calls_.front();
    if (board_ == nullptr) throw waited_too_long(call.tag(), timeout_, call.waits_for());
    std::rethrow_exception(late_ranks(call.tag(), timeout_, call.waits_for(), *thread_.channel()));
  }

  // MPI lets go of the calls' memory before their handles say that they are done with it.
  void give_up(MpiLink& link, CallAt first, const std::exception_ptr& error) {
    released_ = link.forget();
    fail_from(first, error);
  }

  void fail_from(CallAt first, const std::exception_ptr& error) {
    std::deque<Call> queue;
    {
      const std::lock_guard lock(mutex_);
      failure_ = error;
      queue.swap(queue_);
    }
    for (auto call = first; call != calls_.end(); ++call) call->finish(error);
    for (const Call& call : queue) call.completion->finish(error);
    // Greetings that nobody will answer still point into these.
    failed_calls_.splice(failed_calls_.end(), calls_, first, calls_.end());
  }

  static std::exception_ptr left_behind() {
    return std::make_exception_ptr(
        CommError({.what = "the communicator was destroyed before the operation ended"}));
  }

  MpiThread& thread_;
  const int rank_;
  const int world_size_;
  const milliseconds timeout_;
  const std::int64_t chunk_bytes_;
  ControlBoard* const board_;  // null where there is one rank
  const int exceptions_at_birth_ = std::uncaught_exceptions();

  std::mutex mutex_;
  std::condition_variable queued_;
  std::deque<Call> queue_;
  std::exception_ptr failure_;
  bool closing_ = false;
  bool abandoned_ = false;

  // Of the MPI thread alone.
  std::list<MpiCall> calls_;  // under way, in order
  std::list<MpiCall> failed_calls_;
  std::vector<MpiStaging> spare_staging_;
  RankStatus status_;
  MpiClock::time_point moved_at_;
  bool released_ = true;
};

}  // namespace

bool mpi_available() { return true; }

std::unique_ptr<Communicator> make_mpi_communicator(const CommOptions& options,
                                                    const MpiTuning& tuning) {
  ZS_CHECK_GE(tuning.chunk_bytes, 4, "an MPI message holds at least one element");
  ZS_CHECK_LE(tuning.chunk_bytes, std::numeric_limits<int>::max(), "bytes of an MPI message");
  return std::make_unique<MpiCommunicator>(options, tuning, MpiThread::of_process());
}

}  // namespace zeroshard
