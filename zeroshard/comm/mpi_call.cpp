#include "zeroshard/comm/mpi_call.h"

#include <algorithm>
#include <utility>

#include "zeroshard/comm/rank_sum.h"

namespace zeroshard {

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

void MpiCall::begin(std::int64_t chunk_bytes, MpiStaging staging) {
  begun_ = true;
  staging_ = std::move(staging);
  if (fits_greeting(call_)) {
    combine_greetings();
  } else {
    payload_.emplace(call_, link_, MpiPayload::Place{lane_, chunk_bytes}, staging_,
                     MpiPayload::Counts{open_with_, ended_});
  }
}

// An all-reduce of a few numbers; of a barrier's none.
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

}  // namespace zeroshard
