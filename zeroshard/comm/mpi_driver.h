// What the MPI thread does for a communicator and its siblings: takes their calls, moves them on,
// sleeps while there are none, and gives all of them up when one fails.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "zeroshard/base/unwinding.h"
#include "zeroshard/comm/mpi.h"
#include "zeroshard/comm/mpi_lane.h"

namespace zeroshard {

class MpiDriver {
 public:
  MpiDriver(const CommOptions& options, const MpiTuning& tuning, MpiThread& thread);
  // Waits for calls that are under way, unless an exception is on its way out: then the others may
  // wait for this rank for ever, and it must not wait for them.
  ~MpiDriver();
  MpiDriver(const MpiDriver&) = delete;
  MpiDriver& operator=(const MpiDriver&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Adds another order of calls. Every rank adds as many, in the same order.
  int add_lane();
  // Once its calls are over, the lane is another sibling's. All ranks do this in the same order.
  void free_lane(int lane);
  void submit(int lane, Call call);
  // Ends what is under way: an exception takes this rank, and the calls' memory, away.
  void abandon();

 private:
  struct Queue {
    std::deque<Call> calls = {};
    bool taken = true;
  };

  // All of these run on the MPI thread.
  std::chrono::milliseconds work(MpiLink& link);
  bool wait_for_something();
  bool gave_up_if_abandoned(MpiLink& link);
  void take_calls(MpiLink& link);
  void poll(MpiLink& link);
  void advance_lanes();
  void throw_if_lost() const;
  void note_status();
  void pause_if_nothing_moves();
  void give_up(MpiLink& link, const std::exception_ptr& error);
  void fail_waiting(const std::exception_ptr& error);
  const MpiLane* first_lane_under_way() const;
  bool anything_queued() const;
  bool anything_to_take() const;

  MpiThread& thread_;
  const int rank_;
  const int world_size_;
  const CommOptions options_;
  const std::int64_t chunk_bytes_;
  ControlBoard* const board_;  // null where there is one rank
  const Unwinding unwinding_;

  std::mutex mutex_;
  std::condition_variable queued_;
  std::vector<Queue> queues_;  // one for each lane
  std::exception_ptr failure_;
  bool closing_ = false;
  bool abandoned_ = false;

  // The MPI thread alone uses these.
  std::list<MpiLane> lanes_;
  std::vector<MpiArrivals> spare_arrivals_;
  RankStatus status_;
  bool released_ = true;
  bool gave_up_ = false;
};

}  // namespace zeroshard
