#include "zeroshard/comm/mpi_driver.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/comm/faults.h"
#include "zeroshard/comm/mpi_control.h"

namespace zeroshard {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long polling goes on without a break when nothing happens, and the length of the breaks.
// While a payload moves all ranks are at it, and a break would cost bandwidth; a greeting is waited
// for as long as the slowest rank computes, on cores that may be needed for that.
constexpr microseconds kSpinForPayload{2000};
constexpr microseconds kSpinForGreeting{100};
constexpr microseconds kBreak{50};

// After an error of MPI's the control channel has this long to say which rank it is about.
constexpr milliseconds kPatienceForLoss{1000};

// After a failure the other ranks have this long to come to their end as well, so that mpirun
// does not stop them before they have said what they saw.
constexpr milliseconds kPatienceAfterFailure{1000};

}  // namespace

MpiDriver::MpiDriver(const CommOptions& options, const MpiTuning& tuning, MpiThread& thread)
    : thread_(thread),
      rank_(thread.rank()),
      world_size_(thread.world_size()),
      options_(options),
      chunk_bytes_(tuning.chunk_bytes / 4 * 4),  // so that parts are aligned where they arrive
      board_(thread.channel() == nullptr ? nullptr : &thread.channel()->board()) {
  thread_.begin([this](MpiLink& link) { return work(link); });
}

MpiDriver::~MpiDriver() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    abandoned_ = abandoned_ || static_cast<bool>(unwinding_);
  }
  queued_.notify_one();
  thread_.wait();
}

int MpiDriver::add_lane() {
  const std::lock_guard lock(mutex_);
  const auto free = std::ranges::find(queues_, false, &Queue::taken);
  if (free != queues_.end()) {
    free->taken = true;
    return static_cast<int>(free - queues_.begin());
  }
  if (queues_.size() == static_cast<std::size_t>(MpiLane::kLanes)) {
    throw StateError({.what = "there are too many communicators over MPI at once",
                      .value = fmt::format("{}", MpiLane::kLanes),
                      .remedy = "destroy engines that are not needed before you make another"});
  }
  queues_.emplace_back();
  return static_cast<int>(queues_.size()) - 1;
}

void MpiDriver::free_lane(int lane) {
  const std::lock_guard lock(mutex_);
  queues_[static_cast<std::size_t>(lane)].taken = false;
}

void MpiDriver::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  queued_.notify_one();
}

void MpiDriver::submit(int lane, Call call) {
  call.completion->set_abandon([this] { abandon(); });
  {
    const std::lock_guard lock(mutex_);
    if (!failure_ && board_ != nullptr) failure_ = loss_seen_in(call.tag, *board_);
    if (failure_) return call.completion->finish(failure_);
    queues_[static_cast<std::size_t>(lane)].calls.push_back(std::move(call));
  }
  queued_.notify_one();
}

// Returns the patience MpiThread asks for.
milliseconds MpiDriver::work(MpiLink& link) {
  const RankScope scope(rank_);
  while (wait_for_something()) {
    try {
      if (gave_up_if_abandoned(link)) continue;
      take_calls(link);
      poll(link);
      advance_lanes();
      note_status();
      pause_if_nothing_moves();
    } catch (...) {
      give_up(link, std::current_exception());
    }
  }
  gave_up_if_abandoned(link);
  if (!failure_) return options_.timeout;
  return released_ && link.forget() ? kPatienceAfterFailure : MpiThread::kBroken;
}

const MpiLane* MpiDriver::first_lane_under_way() const {
  for (const MpiLane& lane : lanes_) {
    if (!lane.empty()) return &lane;
  }
  return nullptr;
}

bool MpiDriver::anything_queued() const {
  return std::ranges::any_of(queues_, [](const Queue& queue) { return !queue.calls.empty(); });
}

// Calls beyond what a lane has under way wait, and are no reason to hurry.
bool MpiDriver::anything_to_take() const {
  auto queue = queues_.begin();
  for (const MpiLane& lane : lanes_) {
    if (lane.has_room() && !queue->calls.empty()) return true;
    ++queue;
  }
  return lanes_.size() < queues_.size() && anything_queued();
}

// Sleeps while nothing is queued or under way; false when it is time to go.
bool MpiDriver::wait_for_something() {
  std::unique_lock lock(mutex_);
  const auto something = [&] { return anything_queued() || first_lane_under_way() != nullptr; };
  queued_.wait(lock, [&] { return closing_ || something(); });
  return !(closing_ && abandoned_) && something();
}

bool MpiDriver::gave_up_if_abandoned(MpiLink& link) {
  {
    const std::lock_guard lock(mutex_);
    if (!abandoned_) return false;
  }
  // A rank gives up once: MPI would move what it still holds on to, and the memory may be gone
  // by now.
  if (gave_up_) return true;
  if (!failure_ && thread_.channel() != nullptr) thread_.channel()->say_failed();
  give_up(link, std::make_exception_ptr(left_behind()));
  return true;
}

void MpiDriver::take_calls(MpiLink& link) {
  std::unique_lock lock(mutex_);
  while (lanes_.size() < queues_.size()) {
    lanes_.emplace_back(MpiLaneOptions{.number = static_cast<int>(lanes_.size()),
                                       .timeout = options_.timeout,
                                       .chunk_bytes = chunk_bytes_,
                                       .channel = thread_.channel()},
                        link);
  }
  auto queue = queues_.begin();
  for (MpiLane& lane : lanes_) {
    while (lane.has_room() && !queue->calls.empty()) {
      Call call = std::move(queue->calls.front());
      queue->calls.pop_front();
      lane.take(std::move(call));
    }
    ++queue;
  }
}

// MPI may see a rank's end before the control channel does, but does not say whose it is.
void MpiDriver::poll(MpiLink& link) {
  try {
    link.poll();
  } catch (const CommError&) {
    if (board_ == nullptr) throw;
    board_->wait_for_loss(kPatienceForLoss);
    throw_if_lost();
    throw;
  }
}

void MpiDriver::advance_lanes() {
  for (MpiLane& lane : lanes_) {
    try {
      lane.advance(spare_arrivals_);
    } catch (const CommError&) {
      fail_waiting(std::current_exception());
    }
  }
}

void MpiDriver::throw_if_lost() const {
  if (board_ == nullptr || !board_->lost()) return;
  if (const MpiLane* lane = first_lane_under_way()) {
    std::rethrow_exception(loss_seen_in(lane->front_tag(), *board_));
  }
}

// The others learn from this where this rank is.
void MpiDriver::note_status() {
  if (board_ == nullptr) return;
  const MpiLane* lane = first_lane_under_way();
  if (lane == nullptr) {
    status_.under_way = false;
  } else if (!status_.under_way || !(status_.tag == lane->front_tag())) {
    status_ = lane->front_status();
  } else {
    return;
  }
  board_->note(status_);
}

void MpiDriver::pause_if_nothing_moves() {
  const MpiLane* stillest = first_lane_under_way();
  if (stillest == nullptr) return;
  throw_if_lost();
  auto least = std::chrono::nanoseconds::max();
  bool moving = false;
  for (const MpiLane& lane : lanes_) {
    if (lane.empty()) continue;
    lane.check_patience();
    least = std::min(least, lane.still());
    moving = moving || lane.payload_moves();
  }
  if (least < (moving ? kSpinForPayload : kSpinForGreeting)) return std::this_thread::yield();
  std::unique_lock lock(mutex_);
  queued_.wait_for(lock, kBreak, [&] { return abandoned_ || anything_to_take(); });
}

// MPI lets go of the calls' memory before their handles say that they are done with it.
void MpiDriver::give_up(MpiLink& link, const std::exception_ptr& error) {
  gave_up_ = true;
  released_ = link.forget();
  fail_waiting(error);
  for (MpiLane& lane : lanes_) lane.fail(error, false);
}

// The first failure is what all later calls hear; payloads that have begun on all ranks go on.
void MpiDriver::fail_waiting(const std::exception_ptr& error) {
  std::vector<Call> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
    for (Queue& queue : queues_) {
      std::ranges::move(queue.calls, std::back_inserter(waiting));
      queue.calls.clear();
    }
  }
  for (MpiLane& lane : lanes_) lane.fail(error, true);
  for (const Call& call : waiting) call.completion->finish(error);
}

}  // namespace zeroshard
