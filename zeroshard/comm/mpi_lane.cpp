#include "zeroshard/comm/mpi_lane.h"

#include <algorithm>
#include <utility>

#include "zeroshard/comm/faults.h"
#include "zeroshard/comm/mpi_control.h"
#include "zeroshard/comm/rank_sum.h"
#include "zeroshard/device/stalls.h"

namespace zeroshard {
namespace {

// A rank's last messages may still be on their way this long after the end of its program.
constexpr std::chrono::milliseconds kPatienceWithEnded{2000};

void refuse_ended(const MpiCall& call, const ControlBoard& board) {
  for (const int rank : call.waits_for()) {
    if (board.ended(rank)) throw rank_ended(rank, call.tag());
  }
}

}  // namespace

MpiCall::MpiCall(Call call, MpiLink& link, int lane, std::int64_t& ended)
    : call_(std::move(call)),
      link_(link),
      lane_(lane),
      ended_(ended),
      greetings_(static_cast<std::size_t>(link.world_size())),
      greetings_missing_(static_cast<std::size_t>(link.world_size())),
      open_with_(static_cast<std::size_t>(link.world_size())) {}

void MpiCall::greet() {
  Greeting& own = greetings_[static_cast<std::size_t>(link_.rank())];
  own = greeting_of(call_);
  for (int peer = 0; peer < link_.world_size(); ++peer) {
    if (peer == link_.rank()) continue;
    const auto at = static_cast<std::size_t>(peer);
    const MpiLink::Address address{peer, greeting_tag(lane_)};
    link_.receive(&greetings_[at], sizeof(Greeting), address,
                  {&greetings_missing_[at], &open_with_[at], &ended_});
    link_.send(&own, sizeof(Greeting), address, {&greetings_open_, &open_with_[at], &ended_});
  }
}

bool MpiCall::all_greeted() const {
  return greetings_open_ == 0 && std::ranges::count(greetings_missing_, 0) == link_.world_size();
}

void MpiCall::check_greetings() const {
  std::vector<bool> arrived;
  for (const int missing : greetings_missing_) arrived.push_back(missing == 0);
  if (const auto error = disagreement_of(greetings_, arrived)) std::rethrow_exception(error);
}

void MpiCall::begin(std::int64_t chunk_bytes, MpiArrivals arrivals) {
  begun_ = true;
  stall_here();
  arrivals_ = std::move(arrivals);
  if (fits_greeting(call_)) {
    combine_greetings();
  } else {
    payload_.emplace(call_, link_, MpiPayload::Place{lane_, chunk_bytes}, arrivals_,
                     MpiPayload::Counts{open_with_, ended_});
  }
}

// An all-reduce of a few numbers is in the greetings; a barrier has no numbers.
void MpiCall::combine_greetings() {
  std::vector<const void*> addends;
  for (const Greeting& greeting : greetings_) addends.push_back(greeting.payload.data());
  if (call_.piece.count > 0) combine(addends, call_.piece, call_.op);
}

bool MpiCall::advance() { return !payload_ || payload_->advance(); }

RankStatus MpiCall::status() const {
  return {.tag = call_.tag, .lane = lane_, .under_way = true, .any = true};
}

std::vector<int> MpiCall::waits_for() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < open_with_.size(); ++rank) {
    if (open_with_[rank] > 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void MpiLane::take(Call call) {
  if (calls_.empty()) moved_at_ = Clock::now();
  calls_.emplace_back(std::move(call), link_, options_.number, messages_ended_).greet();
}

// Payloads begin in order, so that nothing begins behind a call the ranks disagree about.
void MpiLane::advance(std::vector<MpiArrivals>& spare_arrivals) {
  const bool moved = messages_seen_ != messages_ended_;
  if (moved) moved_at_ = Clock::now();
  messages_seen_ = messages_ended_;
  for (auto call = calls_.begin(); call != calls_.end();) {
    if (!call->begun()) {
      if (moved) call->check_greetings();
      if (!call->all_greeted()) return;
      MpiArrivals arrivals;
      if (!spare_arrivals.empty()) {
        arrivals = std::move(spare_arrivals.back());
        spare_arrivals.pop_back();
      }
      call->begin(options_.chunk_bytes, std::move(arrivals));
    }
    if (!call->advance()) {
      ++call;
      continue;
    }
    spare_arrivals.push_back(call->take_arrivals());
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
