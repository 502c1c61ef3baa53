// Who reads states while training goes on lets no update overtake him: the update of a unit waits
// until the unit has been read.
//
//   gate.close({0, 1, 3});               // between steps: nothing is being updated
//   read(unit 0); gate.open(0); ...      // on another thread, in the order of updates
//   gate.open_all();                     // at the end, however it came
//
// What no update changes (frozen parameters) is read at any time of a save: updates do not wait for
// that, but whoever moves or writes it does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <set>

namespace zeroshard {

class UpdateGate {
 public:
  // Nobody else may read beside.
  void close(const std::set<std::size_t>& units);
  void close_frozen();  // until open_all()
  void open(std::size_t unit);
  void open_all() noexcept;
  bool is_closed() const { return closed_; }  // for some unit

  // Before an update of the unit, or of anything. Costs nothing where the gate is open.
  void wait(std::size_t unit);
  void wait_for_all();
  // Before anything moves to another tier, or somebody writes it who is no update.
  void wait_for_readers();
  // How long updates have waited since it was last closed.
  std::chrono::nanoseconds waited() const;

 private:
  template <typename IsOpen>
  void wait_until(const IsOpen& is_open);

  std::atomic<bool> closed_ = false;
  mutable std::mutex mutex_;
  std::condition_variable opened_;
  std::set<std::size_t> shut_;
  bool frozen_are_read_ = false;
  std::chrono::nanoseconds waited_{};
};

}  // namespace zeroshard
