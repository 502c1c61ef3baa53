// One order of calls, those of a communicator or of a sibling, and each call between its arrival in
// the queue and its end: greetings first, then the payload. Used by the MPI thread alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <list>
#include <optional>
#include <vector>

#include "zeroshard/comm/call.h"
#include "zeroshard/comm/control_frame.h"
#include "zeroshard/comm/greeting.h"
#include "zeroshard/comm/mpi_link.h"
#include "zeroshard/comm/mpi_payload.h"
#include "zeroshard/comm/mpi_thread.h"

namespace zeroshard {

// A call stays where it is while messages are under way: they are counted, and partly stored, in
// here.
class MpiCall {
 public:
  // `ended` counts the lane's messages that got through.
  MpiCall(Call call, MpiLink& link, int lane, std::int64_t& ended);
  MpiCall(const MpiCall&) = delete;
  MpiCall& operator=(const MpiCall&) = delete;

  // Sends the own greeting and listens for the others'.
  void greet();
  bool all_greeted() const;
  // Throws CommError where greetings that have come differ: some rank may come much later.
  void check_greetings() const;
  bool begun() const { return begun_; }
  // Starts the payload, once all have greeted and the greetings are the same.
  void begin(std::int64_t chunk_bytes, MpiArrivals arrivals);
  // Moves a call that has begun; true when nothing is left to do.
  bool advance();
  // The next call takes the memory over after that.
  MpiArrivals take_arrivals() { return std::move(arrivals_); }

  void finish(const std::exception_ptr& error = nullptr) { call_.completion->finish(error); }
  const OperationTag& tag() const { return call_.tag; }
  RankStatus status() const;
  // The answer names the ranks with which messages are under way.
  std::vector<int> waits_for() const;

 private:
  void combine_greetings();

  const Call call_;
  MpiLink& link_;
  const int lane_;
  std::int64_t& ended_;
  std::vector<Greeting> greetings_;  // by rank
  int greetings_open_ = 0;
  std::vector<int> greetings_missing_;  // 1 until the rank's has come
  std::vector<int> open_with_;          // messages under way, by rank
  bool begun_ = false;
  MpiArrivals arrivals_;
  std::optional<MpiPayload> payload_;
};

struct MpiLaneOptions {
  int number = 0;  // among the lanes of all ranks
  std::chrono::milliseconds timeout{0};
  std::int64_t chunk_bytes = 0;
  ControlChannel* channel = nullptr;  // null where there is one rank
};

class MpiLane {
 public:
  // This is enough for a gather and a reduction to overlap, and for greetings to run ahead of
  // payloads.
  static constexpr std::size_t kCallsUnderWay = 4;
  // An engine takes two beside its caller's, and several engines may share a communicator.
  static constexpr int kLanes = 32;

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
  void advance(std::vector<MpiArrivals>& spare_arrivals);
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
