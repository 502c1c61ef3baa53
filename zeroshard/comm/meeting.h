// Where the ranks of one process meet: each brings its call, sees those of the others while all are
// there, and leaves together with them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "zeroshard/comm/call.h"
#include "zeroshard/comm/options.h"

namespace zeroshard {

class MeetingPlace {
 public:
  MeetingPlace(int world_size, const CommOptions& options)
      : world_size_(world_size), options_(options) {}

  // Blocks until every rank has brought its call of this sequence number, then runs `work` with the
  // calls by rank, and returns when all ranks' work is done: until then everybody's memory is
  // readable. Throws CommError, on every rank, when the tags differ, when a rank does not come in
  // time, or after abort().
  using Calls = std::vector<const Call*>;
  void meet(int rank, const Call& call, const std::function<void(const Calls&)>& work);

  // A rank has failed: those who wait for it stop waiting, in the siblings too. The first reason
  // counts.
  void abort(int rank, const std::string& reason);

  // This is another place for the same ranks, and the same one for every rank that asks for
  // this number.
  MeetingPlace& sibling(std::size_t number);

 private:
  struct Meeting {
    Calls calls;
    int arrived = 0;
    int finished = 0;
    int left = 0;
    std::exception_ptr disagreement;
  };

  void arrive(int rank, const Call& call, Meeting& meeting);
  void wait_for_all(std::unique_lock<std::mutex>& lock, int rank, const Call& call,
                    Meeting& meeting);
  static std::exception_ptr disagreement_of(const Calls& calls);
  static std::vector<int> missing_ranks(const Meeting& meeting);

  const int world_size_;
  const CommOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Meeting> meetings_;  // by sequence number; nodes stay where they are
  std::exception_ptr failure_;
  std::deque<MeetingPlace> siblings_;
};

}  // namespace zeroshard
