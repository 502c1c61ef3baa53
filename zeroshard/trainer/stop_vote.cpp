#include "zeroshard/trainer/stop_vote.h"

#include <array>
#include <csignal>

namespace zeroshard {

StopVote vote_to_stop(Communicator& comm, const Interrupts& interrupts, bool enough) {
  const int signal = interrupts.stop_requested();
  const auto vote = [](bool yes) { return yes ? 1.0F : 0.0F; };
  std::array<float, 3> all{vote(signal == SIGINT), vote(signal == SIGTERM), vote(enough)};
  comm.all_reduce({all.data(), all.size(), DType::fp32}, ReduceOp::max, "stop").wait();
  StopVote result{.enough = all[2] > 0};
  if (all[0] > 0) result.signal = SIGINT;
  if (all[1] > 0) result.signal = SIGTERM;
  return result;
}

}  // namespace zeroshard
