// One order of launches on all ranks, for the operations of several communicators that share a
// device's stream: a lane each.
//
// An operation on streams cannot be taken back: once launched it occupies the device until all
// ranks have launched it. Where ranks start the operations of two lanes in different orders (one
// skips a unit, say), launching each as it comes would let them wait for each other for ever. So
// nothing is launched before every rank has brought it:
//
// - In a round every rank tells which lanes have an operation waiting, and learns the same of all
//   others. The lanes that wait on all ranks are the same list everywhere; their first operations
//   are launched, the lanes in the order of their numbers.
// - A rank enters a round as soon as something waits, and again until nothing does.
//
// Why this cannot hang: whatever is launched is launched by all ranks, in one order, on one stream
// of each; so the operation that is first in that order and not over waits for nobody's host. And
// whatever two communicators with threads of their own could bring to its end is launched:
// operations of a lane come in one order, and one that all ranks have brought waits for the next
// round alone.
//
// A round costs one small all-gather between hosts, which overlaps with the device's work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "zeroshard/comm/call.h"
#include "zeroshard/device/event.h"

namespace zeroshard {

// What the order launches on; all of it is called by the order's own thread.
class Launches {
 public:
  virtual ~Launches() = default;
  // Puts the operation on the device's stream, behind `ready`, and returns its end. `hosts` is for
  // what ranks must tell each other before the first one.
  virtual Event launch(const Call& call, const Event& ready, Communicator& hosts) = 0;
  // Throws what has gone wrong with operations that are under way.
  virtual void check() = 0;
  // A rank is gone, or the operations have failed: what is under way ends soon.
  virtual void abort() noexcept = 0;
};

struct LaunchOrderOptions {
  // Operations that are under way for so long make ranks meet, to see whether all are there.
  std::chrono::milliseconds patience = std::chrono::seconds(2);
};

class LaunchOrder {
 public:
  // `hosts` connects the same ranks, and is nobody else's.
  LaunchOrder(std::unique_ptr<Communicator> hosts, std::unique_ptr<Launches> launches,
              const LaunchOrderOptions& options = {});
  // Ends what was submitted, unless it was abandoned.
  ~LaunchOrder();
  LaunchOrder(const LaunchOrder&) = delete;
  LaunchOrder& operator=(const LaunchOrder&) = delete;

  // Every rank adds the same lanes in the same order.
  int add_lane();
  // What is on the device's stream at `ready` comes before the operation.
  void submit(int lane, Call call, const Event& ready);
  // Everything fails soon; nobody is waited for any more.
  void abandon();

 private:
  struct Waiting {
    Call call;
    Event ready;
  };
  struct UnderWay {
    OperationTag tag;
    Event end;
  };
  using Clock = std::chrono::steady_clock;

  void run();
  bool wait_for_reason();
  std::chrono::microseconds time_to_sleep() const;
  bool is_overdue();
  void meet();
  void wait_for_hosts(const Handle& round);
  std::vector<int> lanes_that_wait_everywhere();
  void check_tags(int lane);
  void launch_first(int lane);
  void fail(const std::exception_ptr& error);
  bool is_given_up();
  OperationTag first_tag();

  const LaunchOrderOptions options_;
  const std::unique_ptr<Communicator> hosts_;
  const std::unique_ptr<Launches> launches_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int lanes_ = 0;
  std::map<int, std::deque<Waiting>> waiting_;  // by lane; none is empty
  bool has_news_ = false;                       // something was submitted since the last round
  bool closing_ = false;
  bool abandoned_ = false;
  std::exception_ptr failure_;

  // The thread alone uses these.
  std::deque<UnderWay> under_way_;  // in order
  Clock::time_point last_sign_ = Clock::now();

  std::thread thread_;  // started by the first call; last, since it uses all the above
};

}  // namespace zeroshard
