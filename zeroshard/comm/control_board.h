// What the control channel's thread and the rank's other threads tell each other.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "zeroshard/comm/control_frame.h"

namespace zeroshard {

// A rank that will take part in nothing any more.
struct RankLoss {
  int rank = 0;
  bool said_so = false;  // it ends with an error that it reports itself
};

// Where a rank was when it last spoke.
struct RankReport {
  int rank = 0;
  RankStatus status = {};
  std::chrono::milliseconds silent_for{0};
};

class ControlBoard {
 public:
  // The rank's own status, told to others when they ask.
  void note(const RankStatus& status);
  RankStatus status() const;

  // Only the first loss counts: later ones are its consequences.
  void declare(RankLoss loss);
  std::optional<RankLoss> loss() const;
  bool lost() const { return lost_.load(std::memory_order_relaxed); }
  std::optional<RankLoss> wait_for_loss(std::chrono::milliseconds limit) const;

  // Ranks whose program has come to its end, and well. They take part in nothing any more either.
  void note_end(int rank);
  bool ended(int rank) const;

  // The answer to a question: a report for each rank, the last one marked.
  void forget_reports();
  void add(RankReport report, bool last);
  std::vector<RankReport> wait_for_reports(std::chrono::milliseconds limit) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  RankStatus status_;
  std::optional<RankLoss> loss_;
  std::atomic<bool> lost_ = false;  // the same, for those who look often
  std::set<int> ended_;
  std::vector<RankReport> reports_;
  bool answered_ = false;
};

}  // namespace zeroshard
