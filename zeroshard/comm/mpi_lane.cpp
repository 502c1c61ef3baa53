#include "zeroshard/comm/mpi_lane.h"

#include <utility>

#include "zeroshard/comm/faults.h"
#include "zeroshard/comm/mpi_control.h"

namespace zeroshard {
namespace {

// How long after the end of a rank's program its last messages may still be on their way.
constexpr std::chrono::milliseconds kPatienceWithEnded{2000};

void refuse_ended(const MpiCall& call, const ControlBoard& board) {
  for (const int rank : call.waits_for()) {
    if (board.ended(rank)) throw rank_ended(rank, call.tag());
  }
}

}  // namespace

void MpiLane::take(Call call) {
  if (calls_.empty()) moved_at_ = Clock::now();
  calls_.emplace_back(std::move(call), link_, options_.number, messages_ended_).greet();
}

// Payloads begin in order, so that nothing begins behind a call the ranks disagree about.
void MpiLane::advance(std::vector<MpiStaging>& spare_staging) {
  const bool moved = messages_seen_ != messages_ended_;
  if (moved) moved_at_ = Clock::now();
  messages_seen_ = messages_ended_;
  for (auto call = calls_.begin(); call != calls_.end();) {
    if (!call->begun()) {
      if (moved) call->check_greetings();
      if (!call->all_greeted()) return;
      MpiStaging staging;
      if (!spare_staging.empty()) {
        staging = std::move(spare_staging.back());
        spare_staging.pop_back();
      }
      call->begin(options_.chunk_bytes, std::move(staging));
    }
    if (!call->advance()) {
      ++call;
      continue;
    }
    spare_staging.push_back(call->take_staging());
    call->finish();
    call = calls_.erase(call);
  }
}

std::chrono::nanoseconds MpiLane::still() const {
  return calls_.empty() ? std::chrono::nanoseconds::zero() : Clock::now() - moved_at_;
}

void MpiLane::check_patience() const {
  const auto time = still();
  const MpiCall& call = calls_.front();
  ControlChannel* const channel = options_.channel;
  if (channel != nullptr && time > kPatienceWithEnded) refuse_ended(call, channel->board());
  if (time <= options_.timeout) return;
  if (channel == nullptr) throw waited_too_long(call.tag(), options_.timeout, call.waits_for());
  std::rethrow_exception(late_ranks(call.status(), options_.timeout, call.waits_for(), *channel));
}

void MpiLane::fail(const std::exception_ptr& error, bool only_waiting) {
  auto first = calls_.begin();
  while (only_waiting && first != calls_.end() && first->begun()) ++first;
  for (auto call = first; call != calls_.end(); ++call) call->finish(error);
  failed_.splice(failed_.end(), calls_, first, calls_.end());
}

}  // namespace zeroshard
