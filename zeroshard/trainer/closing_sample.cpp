#include "zeroshard/trainer/closing_sample.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "zeroshard/trainer/stop_vote.h"

namespace zeroshard {
namespace {

// Rank 0's clock decides for all ranks. It stops before a part that would probably end too late.
class SampleTime {
 public:
  bool is_over() {
    const auto now = Clock::now();
    longest_ = std::max(longest_, now - last_);
    last_ = now;
    return now + longest_ > start_ + kSampleTime;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  Clock::duration longest_{};
};

}  // namespace

int show_sample(TrainingTask& task, std::uint64_t seed, Communicator& comm,
                const Interrupts& interrupts) {
  StopVote vote = vote_to_stop(comm, interrupts);  // it may have come while files were written
  if (vote.signal != 0) return vote.signal;
  SampleTime time;
  const std::string text = task.sample(seed, [&] {
    const bool is_over = time.is_over();
    vote = vote_to_stop(comm, interrupts, comm.rank() == 0 && is_over);
    return vote.signal == 0 && !vote.enough;
  });
  if (vote.signal != 0 || comm.rank() != 0 || text.empty()) return vote.signal;
  fmt::print("\nsample:\n{}\n", text);
  if (vote.enough) fmt::print("(no more in {} s)\n", kSampleTime.count());
  std::fflush(stdout);
  return 0;
}

}  // namespace zeroshard
