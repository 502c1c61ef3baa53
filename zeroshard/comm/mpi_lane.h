// One order of calls: those of a communicator or of a sibling. Used by the MPI thread alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <list>
#include <vector>

#include "zeroshard/comm/mpi_call.h"
#include "zeroshard/comm/mpi_thread.h"

namespace zeroshard {

struct MpiLaneOptions {
  int number = 0;  // among the lanes of all ranks
  std::chrono::milliseconds timeout{0};
  std::int64_t chunk_bytes = 0;
  ControlChannel* channel = nullptr;  // null where there is one rank
};

class MpiLane {
 public:
  // Enough for a gather and a reduction to overlap, and for greetings to run ahead of payloads.
  static constexpr std::size_t kCallsUnderWay = 4;
  static constexpr int kLanes = 4;

  MpiLane(const MpiLaneOptions& options, MpiLink& link) : options_(options), link_(link) {}

  bool has_room() const { return calls_.size() < kCallsUnderWay; }
  bool empty() const { return calls_.empty(); }
  const OperationTag& front_tag() const { return calls_.front().tag(); }
  RankStatus front_status() const { return calls_.front().status(); }
  // Whether the first call's payload is on its way: then all ranks are at it.
  bool payload_moves() const { return !calls_.empty() && calls_.front().begun(); }

  void take(Call call);
  // Begins and finishes what can be. Throws where the ranks disagree: the lane's calls before that
  // one go on, all ranks being in them.
  void advance(std::vector<MpiStaging>& spare_staging);
  // How long nothing of this lane has moved. Throws once that is too long, naming whom it waits
  // for.
  std::chrono::nanoseconds still() const;
  void check_patience() const;
  // Ends the calls of a lane that has failed: all, or those that have not begun.
  void fail(const std::exception_ptr& error, bool only_waiting);

 private:
  using Clock = std::chrono::steady_clock;

  const MpiLaneOptions options_;
  MpiLink& link_;
  std::list<MpiCall> calls_;   // under way, in order
  std::list<MpiCall> failed_;  // greetings that nobody will answer still point into these
  std::int64_t messages_ended_ = 0;
  std::int64_t messages_seen_ = 0;
  Clock::time_point moved_at_ = {};
};

}  // namespace zeroshard
