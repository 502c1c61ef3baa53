#include "zeroshard/comm/faults.h"

#include <fmt/format.h>

namespace zeroshard {

CommError out_of_step(const OperationTag& of_rank_0, int rank, const OperationTag& of_rank,
                      bool same_name) {
  return CommError(
      {.what = same_name ? "ranks call one operation with different sizes"
                         : "ranks call different operations",
       .value = fmt::format("rank 0 {}, rank {} {}", describe(of_rank_0), rank, describe(of_rank)),
       .remedy = "every rank must use the units in the same order"});
}

CommError waited_too_long(const OperationTag& tag, std::chrono::milliseconds time,
                          const std::vector<int>& ranks) {
  return CommError(
      {.what = fmt::format("{} waited {} ms for rank{} {}", describe(tag), time.count(),
                           ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", ")),
       .remedy = "look at what that rank is doing, or raise zeroshard.comm_timeout"});
}

}  // namespace zeroshard
