#include "zeroshard/comm/common_progress.h"

#include <thread>

namespace zeroshard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTellAgain{100};
constexpr std::chrono::microseconds kLookAgain{200};

}  // namespace

Progress wait_together(LaunchHosts& hosts, const ProgressOptions& options,
                       const std::function<Progress()>& look) {
  const auto deadline = Clock::now() + options.time;
  Progress worst = Progress::under_way;
  while (worst == Progress::under_way) {
    const auto tell_again = Clock::now() + kTellAgain;
    Progress mine = look();
    while (mine == Progress::under_way && Clock::now() < tell_again) {
      std::this_thread::sleep_for(kLookAgain);
      mine = look();
    }
    hosts
        .throw_if_abandoned();  // then this rank's hosts would go on answering the others' for ever
    if (mine == Progress::under_way && Clock::now() > deadline) mine = Progress::too_late;
    auto told = static_cast<std::int32_t>(mine);
    hosts.wait(hosts.comm().all_reduce({&told, 1, DType::int32}, ReduceOp::max, options.label));
    worst = static_cast<Progress>(told);
  }
  return worst;
}

}  // namespace zeroshard
