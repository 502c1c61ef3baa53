#include "zeroshard/comm/mpi_call.h"

#include <utility>

#include "zeroshard/comm/rank_sum.h"

namespace zeroshard {

MpiCall::MpiCall(Call call, MpiLink& link, int lane, std::int64_t& ended)
    : call_(std::move(call)),
      link_(link),
      lane_(lane),
      ended_(ended),
      greetings_(static_cast<std::size_t>(link.world_size())),
      open_with_(static_cast<std::size_t>(link.world_size())) {}

void MpiCall::greet() {
  MpiGreeting& own = greetings_[static_cast<std::size_t>(link_.rank())];
  own = greeting_of(call_);
  for (int peer = 0; peer < link_.world_size(); ++peer) {
    if (peer == link_.rank()) continue;
    const auto at = static_cast<std::size_t>(peer);
    const MpiLink::Address address{peer, greeting_tag(lane_)};
    const MpiLink::Counters counters{&greetings_open_, &open_with_[at], &ended_};
    link_.receive(&greetings_[at], sizeof(MpiGreeting), address, counters);
    link_.send(&own, sizeof(MpiGreeting), address, counters);
  }
}

void MpiCall::begin(std::int64_t chunk_bytes, MpiStaging staging) {
  if (const std::exception_ptr error = disagreement_of(greetings_)) std::rethrow_exception(error);
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
  for (const MpiGreeting& greeting : greetings_) addends.push_back(greeting.payload.data());
  if (call_.piece.count > 0) combine(addends, call_.piece, call_.op);
}

bool MpiCall::advance() { return !payload_ || payload_->advance(); }

RankStatus MpiCall::status() const {
  std::int64_t bytes = call_.piece.bytes();
  for (const GatherPair& pair : call_.gathers) bytes += pair.out.bytes();
  for (const ReducePair& pair : call_.reduces) bytes += pair.in.bytes();
  return {.tag = call_.tag, .bytes = bytes, .under_way = true, .any = true};
}

std::vector<int> MpiCall::waits_for() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < open_with_.size(); ++rank) {
    if (open_with_[rank] > 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace zeroshard
