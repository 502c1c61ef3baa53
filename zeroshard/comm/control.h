// The control channel: a TCP connection from every rank to rank 0, beside whatever moves the
// payloads. It knows within a moment when a rank's process ends, and where every rank is when one
// is waited for in vain.
//
//   ControlChannel channel(world_size, {});         // on rank 0; its address() goes to the others
//   ControlChannel channel(rank, address, {});      // on the others
//   channel.board().note(status);                   // cheap, at every operation
//   if (auto loss = channel.board().loss()) ...
//
// The payloads' backend carries rank 0's address. A rank that closes without a goodbye is lost, and
// rank 0 tells all. Rank 0 asks every rank twice a second where it is: one that is stopped, and not
// just slow, does not answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "zeroshard/comm/control_board.h"

namespace zeroshard {

class ControlEnd;
class ControlHub;

struct ControlAddress {
  std::uint64_t token = 0;  // who does not know it is not let in
  int port = 0;
  std::vector<std::string> hosts = {};  // to be tried in this order
};

struct ControlOptions {
  bool this_host_only = false;                 // all ranks are on it
  int port = 0;                                // of rank 0; 0: any that is free
  std::chrono::milliseconds patience{20'000};  // for all ranks to join
};

class ControlChannel {
 public:
  // Rank 0's channel listens at once. Throws CommError where it cannot.
  ControlChannel(int world_size, const ControlOptions& options);
  // Any other rank's channel connects to it. Throws CommError where rank 0 cannot be reached.
  ControlChannel(int rank, const ControlAddress& address, const ControlOptions& options);
  // The channel says goodbye, unless this rank has said how it ends, and closes.
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  // Only rank 0's channel has one.
  const ControlAddress& address() const { return address_; }
  // Rank 0 alone calls this. Throws a CommError that names who has not joined in time.
  void wait_for_all() const;

  ControlBoard& board() { return board_; }
  const ControlBoard& board() const { return board_; }
  // The channel's thread calls `watch` a few times a second.
  void set_watch(std::function<void()> watch);

  // The answer says where every rank is; it is empty if rank 0 does not answer in time.
  std::vector<RankReport> ask(std::chrono::milliseconds limit);
  // These tell the others how this rank ends: with an error, which it reports itself, or well.
  // The first word counts.
  void say_failed() { say_end(FrameKind::failed); }
  void say_goodbye() { say_end(FrameKind::goodbye); }

 private:
  void say_end(FrameKind how);

  ControlBoard board_;
  const int rank_;
  const ControlOptions options_;
  ControlAddress address_;
  std::unique_ptr<ControlEnd> end_;
  ControlHub* hub_ = nullptr;  // the same, on rank 0
  bool said_end_ = false;
  std::thread thread_;
};

}  // namespace zeroshard
