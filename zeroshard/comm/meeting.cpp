#include "zeroshard/comm/meeting.h"

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/faults.h"

namespace zeroshard {

void MeetingPlace::meet(int rank, const Call& call, const std::function<void(const Calls&)>& work) {
  std::unique_lock lock(mutex_);
  Meeting& meeting = meetings_[call.tag.sequence];
  arrive(rank, call, meeting);
  wait_for_all(lock, rank, call, meeting);
  const Calls calls = meeting.calls;
  lock.unlock();
  std::exception_ptr own_failure;
  try {
    work(calls);
  } catch (...) {
    own_failure = std::current_exception();
  }
  lock.lock();
  if (++meeting.finished == world_size_) changed_.notify_all();
  // Nobody leaves, and frees memory, while another still reads it; work always ends.
  changed_.wait(lock, [&] { return meeting.finished == world_size_; });
  if (++meeting.left == world_size_) meetings_.erase(call.tag.sequence);
  if (own_failure) std::rethrow_exception(own_failure);
}

// The last to come compares, while all are held here: later a call may be gone.
void MeetingPlace::arrive(int rank, const Call& call, Meeting& meeting) {
  if (meeting.calls.empty()) meeting.calls.resize(static_cast<std::size_t>(world_size_));
  meeting.calls[static_cast<std::size_t>(rank)] = &call;
  if (++meeting.arrived < world_size_) return;
  meeting.disagreement = disagreement_of(meeting.calls);
  if (meeting.disagreement) failure_ = meeting.disagreement;
  changed_.notify_all();
}

void MeetingPlace::abort(int rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  for (MeetingPlace& sibling : siblings_) sibling.abort(rank, reason);
  if (failure_) return;
  failure_ = std::make_exception_ptr(
      CommError({.what = fmt::format("rank {} failed", rank), .value = reason}));
  changed_.notify_all();
}

MeetingPlace& MeetingPlace::sibling(std::size_t number) {
  const std::lock_guard lock(mutex_);
  while (siblings_.size() <= number) {
    siblings_.emplace_back(world_size_, options_).failure_ = failure_;
  }
  return siblings_[number];
}

void MeetingPlace::wait_for_all(std::unique_lock<std::mutex>& lock, int rank, const Call& call,
                                Meeting& meeting) {
  const auto complete = [&] { return meeting.arrived == world_size_; };
  const bool woken =
      changed_.wait_for(lock, options_.timeout, [&] { return complete() || failure_ != nullptr; });
  if (complete()) {
    if (meeting.disagreement) std::rethrow_exception(meeting.disagreement);
    return;
  }
  if (!woken) {
    failure_ = std::make_exception_ptr(
        waited_too_long(call.tag, options_.timeout, missing_ranks(meeting)));
    changed_.notify_all();
  }
  // Who comes later must not find a call that is gone.
  meeting.calls[static_cast<std::size_t>(rank)] = nullptr;
  --meeting.arrived;
  std::rethrow_exception(failure_);
}

std::exception_ptr MeetingPlace::disagreement_of(const Calls& calls) {
  for (std::size_t rank = 1; rank < calls.size(); ++rank) {
    const OperationTag& first = calls[0]->tag;
    const OperationTag& other = calls[rank]->tag;
    if (first == other) continue;
    const bool same_name = first.operation == other.operation && first.label == other.label;
    return std::make_exception_ptr(
        out_of_step({0, first}, {static_cast<int>(rank), other}, same_name));
  }
  return nullptr;
}

std::vector<int> MeetingPlace::missing_ranks(const Meeting& meeting) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < meeting.calls.size(); ++rank) {
    if (meeting.calls[rank] == nullptr) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace zeroshard
