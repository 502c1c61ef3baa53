// How ranks wait together for what none of their hosts can wait for alone: each looks at its own
// part, and they tell each other, until all are done or one will never be.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "zeroshard/comm/launch_order.h"

namespace zeroshard {

// The worst is the ranks' common one.
enum class Progress : std::int32_t { done, under_way, failed, too_late };

struct ProgressOptions {
  std::chrono::milliseconds time;  // from now on; then it is too late
  const char* label = "";          // of what the hosts say to each other
};

// `look` is asked again and again for this rank's; it throws nothing. All ranks come to the same
// answer, which is not `under_way`, after the same rounds.
Progress wait_together(LaunchHosts& hosts, const ProgressOptions& options,
                       const std::function<Progress()>& look);

}  // namespace zeroshard
