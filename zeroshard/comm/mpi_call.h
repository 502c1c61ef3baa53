// One call between its arrival in the queue and its end: greetings first, then the payload.
#pragma once

#include <exception>
#include <optional>
#include <vector>

#include "zeroshard/comm/call.h"
#include "zeroshard/comm/control_frame.h"
#include "zeroshard/comm/greeting.h"
#include "zeroshard/comm/mpi_link.h"
#include "zeroshard/comm/mpi_payload.h"

namespace zeroshard {

// Stays where it is while messages are under way: they are counted, and partly stored, in here.
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
  // Once all have greeted, and the same: starts the payload.
  void begin(std::int64_t chunk_bytes, MpiStaging staging);
  // Once begun: true when nothing is left to do.
  bool advance();
  // After that; the next call's.
  MpiStaging take_staging() { return std::move(staging_); }

  void finish(const std::exception_ptr& error = nullptr) { call_.completion->finish(error); }
  const OperationTag& tag() const { return call_.tag; }
  RankStatus status() const;
  // The ranks with which messages are under way.
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
  MpiStaging staging_;
  std::optional<MpiPayload> payload_;
};

}  // namespace zeroshard
