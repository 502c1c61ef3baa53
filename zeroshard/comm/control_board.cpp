#include "zeroshard/comm/control_board.h"

#include <utility>

namespace zeroshard {

void ControlBoard::note(const RankStatus& status) {
  const std::lock_guard lock(mutex_);
  status_ = status;
}

RankStatus ControlBoard::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void ControlBoard::declare(RankLoss loss) {
  {
    const std::lock_guard lock(mutex_);
    if (loss_) return;
    loss_ = loss;
    lost_ = true;
  }
  changed_.notify_all();
}

std::optional<RankLoss> ControlBoard::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

std::optional<RankLoss> ControlBoard::wait_for_loss(std::chrono::milliseconds limit) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return loss_.has_value(); });
  return loss_;
}

void ControlBoard::note_end(int rank) {
  const std::lock_guard lock(mutex_);
  ended_.insert(rank);
}

bool ControlBoard::ended(int rank) const {
  const std::lock_guard lock(mutex_);
  return ended_.contains(rank);
}

void ControlBoard::forget_reports() {
  const std::lock_guard lock(mutex_);
  reports_.clear();
  answered_ = false;
}

void ControlBoard::add(RankReport report, bool last) {
  {
    const std::lock_guard lock(mutex_);
    reports_.push_back(std::move(report));
    answered_ = last;
  }
  changed_.notify_all();
}

std::vector<RankReport> ControlBoard::wait_for_reports(std::chrono::milliseconds limit) const {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, limit, [&] { return answered_; })) return {};
  return reports_;
}

}  // namespace zeroshard
