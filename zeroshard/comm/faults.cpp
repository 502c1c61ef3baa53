#include "zeroshard/comm/faults.h"

#include <fmt/format.h>

namespace zeroshard {

CommError out_of_step(const RankCall& one, const RankCall& other, bool same_name) {
  const auto side = [&](const RankCall& call) {
    const std::string bytes = same_name ? fmt::format(" of {} bytes", call.tag.bytes) : "";
    return fmt::format("rank {} {}{}", call.rank, describe(call.tag), bytes);
  };
  return CommError({.what = same_name ? "ranks call one operation with different sizes"
                                      : "ranks call different operations",
                    .value = fmt::format("{}, {}", side(one), side(other)),
                    .remedy = same_name ? "every rank must have the same model"
                                        : "every rank must use the units in the same order"});
}

CommError waited_too_long(const OperationTag& tag, std::chrono::milliseconds time,
                          const std::vector<int>& ranks, const std::string& where) {
  return CommError(
      {.what = fmt::format("{} waited {} ms for rank{} {}", describe(tag), time.count(),
                           ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", ")),
       .value = where,
       .remedy = "look at what that rank is doing, or raise zeroshard.comm_timeout"});
}

CommError left_behind() {
  return CommError({.what = "the communicator was destroyed before the operation ended"});
}

CommError rank_gone(int rank, const OperationTag& tag) {
  return CommError({.what = fmt::format("rank {} is gone", rank),
                    .value = fmt::format("noticed in {}", describe(tag)),
                    .remedy = "its process was killed or crashed: see its own messages, and the "
                              "kernel's log for an out-of-memory kill"});
}

PeerError rank_failed(int rank, const OperationTag& tag) {
  return PeerError({.what = fmt::format("rank {} ends with an error", rank),
                    .value = fmt::format("noticed in {}", describe(tag)),
                    .remedy = "see that rank's own message"});
}

CommError rank_ended(int rank, const OperationTag& tag) {
  return CommError(
      {.what = fmt::format("{} waits for rank {}, whose program has ended", describe(tag), rank),
       .remedy = "every rank must take the same number of steps"});
}

}  // namespace zeroshard
