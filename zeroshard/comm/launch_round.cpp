#include "zeroshard/comm/launch_round.h"

#include <algorithm>

namespace zeroshard {
namespace {

// Calls `act` with each lane and place, by turns, until it says that this is enough.
template <typename Act>
void by_turns(const std::map<std::uint64_t, std::size_t>& lengths, const Act& act) {
  std::size_t longest = 0;
  for (const auto& [lane, length] : lengths) longest = std::max(longest, length);
  for (std::size_t place = 0; place < longest; ++place) {
    for (const auto& [lane, length] : lengths) {
      if (place < length && !act(lane, place)) return;
    }
  }
}

WaitingTags tags_of_rank(const std::vector<WaitingCall>& told, std::size_t rank,
                         std::size_t entries) {
  WaitingTags tags;
  for (std::size_t i = rank * entries; i < (rank + 1) * entries; ++i) {
    if (told[i].lane != 0) tags[told[i].lane].push_back(told[i].tag);
  }
  return tags;
}

// Those that wait on all ranks, and how many operations of each do.
std::map<std::uint64_t, std::size_t> common_lengths(const std::vector<WaitingTags>& ranks) {
  std::map<std::uint64_t, std::size_t> lengths;
  for (const auto& [lane, tags] : ranks.front()) {
    std::size_t shortest = tags.size();
    for (const WaitingTags& rank : ranks) {
      const auto found = rank.find(lane);
      shortest = std::min(shortest, found == rank.end() ? 0 : found->second.size());
    }
    if (shortest > 0) lengths[lane] = shortest;
  }
  return lengths;
}

}  // namespace

std::vector<WaitingCall> told_by_turns(const WaitingTags& waiting, std::size_t room) {
  std::map<std::uint64_t, std::size_t> lengths;
  for (const auto& [lane, tags] : waiting) lengths[lane] = tags.size();
  std::vector<WaitingCall> told;
  by_turns(lengths, [&](std::uint64_t lane, std::size_t place) {
    if (place > 0 && told.size() >= room) return false;
    told.push_back({lane, waiting.at(lane)[place]});
    return true;
  });
  return told;
}

RoundResult common_beginning(const std::vector<WaitingCall>& told, std::size_t ranks) {
  std::vector<WaitingTags> tags;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    tags.push_back(tags_of_rank(told, rank, told.size() / ranks));
  }
  RoundResult result;
  by_turns(common_lengths(tags), [&](std::uint64_t lane, std::size_t place) {
    const std::uint64_t first = tags.front().at(lane)[place];
    const bool equal = std::ranges::all_of(
        tags, [&](const WaitingTags& rank) { return rank.at(lane)[place] == first; });
    if (equal) {
      result.lanes.push_back(lane);
    } else {
      result.different = lane;
      result.place = place;
    }
    return equal;
  });
  return result;
}

}  // namespace zeroshard
