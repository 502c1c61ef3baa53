// Ranks that are processes, without a launcher: they are forked, talk through sockets, and may be
// killed. They can do what a save asks of a communicator, which is to gather and to have a sibling,
// and nothing else.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <sys/types.h>

#include "zeroshard/comm/communicator.h"

namespace zeroshard {

class ForkedRanks {
 public:
  // Starts them. A rank's end is with code 0, or 1 where `body` throws: a CommError is the usual
  // end of a rank whose peer was killed.
  ForkedRanks(int ranks, const std::function<void(Communicator&)>& body);
  // Kills and buries whoever is left.
  ~ForkedRanks();
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  void kill(int rank);
  // Waits for the ranks that were not killed; whether all ended with code 0.
  bool wait();

 private:
  std::vector<pid_t> processes_;  // 0: buried
};

}  // namespace zeroshard
