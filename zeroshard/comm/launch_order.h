// One order of launches on all ranks, for the operations of several communicators that share a
// device's stream: a lane each.
//
// An operation on streams cannot be taken back: once launched it occupies the device until all
// ranks have launched it. Where ranks start the operations of two lanes in different orders (one
// skips a unit, say), launching each as it comes would let them wait for each other for ever. So
// nothing is launched before every rank has brought it:
//
// - In a round every rank tells, for each lane, which operations wait at its front, and learns the
//   same of all others. Of each lane the longest beginning that all ranks have told is the same
//   list everywhere; it is launched, the lanes by turns (launch_round.h). Where two ranks differ in
//   it, what is before that is launched, and then the difference is everybody's error.
// - A rank enters a round as soon as something waits, and again until nothing does; and from its
//   first operation on every two seconds, so that a rank that is gone is noticed by all others
//   whatever their hosts wait for, and no round stays open for want of an idle rank.
//
// Why this cannot hang: all ranks make a round's list from the same messages, and launch all of it
// before they enter the next; so whatever is launched is launched by all ranks, in one order, on
// one stream of each, and the operation that is first in that order and not over waits for nobody's
// host. That a round launches several changes nothing in this: every one of them has been brought
// by every rank before the first of them is launched, so none waits for what a host would still
// have to do. And whatever two communicators with threads of their own could bring to its end is
// launched: operations of a lane come in one order, each rank tells the front of every lane however
// many there are, and a front that all ranks have brought is launched in the round that tells it. A
// rank whose launches fail says so in its last round, and all fail with it. A rank that ends says
// that too: who waits for it afterwards fails. This holds for one order; kernels of another
// library, or of another order, on the same devices are none of its business.
//
// A round costs one small all-gather between hosts, which overlaps with the device's work. Of what
// waits while it is under way as much is launched by the next as a message has room for, so that
// hosts that are slow to answer make rounds longer, and not more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "zeroshard/comm/call.h"
#include "zeroshard/comm/launch_round.h"
#include "zeroshard/comm/launched_point.h"
#include "zeroshard/device/event.h"

namespace zeroshard {

// How launches talk to the other ranks' hosts. Its waits end when nobody wants them any more.
class LaunchHosts {
 public:
  virtual ~LaunchHosts() = default;
  virtual Communicator& comm() = 0;
  // Throws the operation's error, and left_behind() where the order was abandoned.
  virtual void wait(const Handle& handle) = 0;
  virtual void throw_if_abandoned() = 0;
};

// What the order launches on; all of it is called by the order's own thread.
class Launches {
 public:
  virtual ~Launches() = default;
  // Runs all the thread does, with the device as its current one.
  virtual void enclose(const std::function<void()>& body) = 0;
  // Puts the operation on the device's stream, behind `ready`, and returns its end.
  virtual Event launch(const Call& call, const Event& ready, LaunchHosts& hosts) = 0;
  // Throws what has gone wrong with operations that are under way.
  virtual void check() = 0;
  // The operations have failed, here or on another rank: returns when nothing touches their memory.
  virtual void abort() noexcept = 0;
};

struct LaunchOrderOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  std::chrono::milliseconds heartbeat = std::chrono::seconds(2);
};

class LaunchOrder final : private LaunchHosts {
 public:
  // `hosts` connects the same ranks, and is nobody else's.
  LaunchOrder(std::unique_ptr<Communicator> hosts, std::unique_ptr<Launches> launches,
              const LaunchOrderOptions& options = {});
  // Ends what was submitted, unless it was abandoned.
  ~LaunchOrder() override;
  LaunchOrder(const LaunchOrder&) = delete;
  LaunchOrder& operator=(const LaunchOrder&) = delete;

  // Every rank adds the same lanes in the same order.
  int add_lane();
  // What is on the device's stream at `ready` comes before the operation.
  void submit(int lane, Call call, const Event& ready);
  // Everything fails soon; nobody is waited for any more.
  void abandon();
  // What has ended the order before its time; null where nothing has.
  std::exception_ptr failure();

 private:
  enum class Word : std::uint64_t { here, ending, failed };
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Call call;
    Event ready;
    Clock::time_point since = Clock::now();
  };
  struct UnderWay {
    OperationTag tag;
    Event end;
    std::shared_ptr<LaunchedPoint> point;  // what others know of it
  };
  struct Message;

  Communicator& comm() override { return *hosts_; }
  void wait(const Handle& handle) override;
  void throw_if_abandoned() override;

  void run();
  Word wait_for_reason();
  Clock::duration time_to_sleep() const;
  void forget_what_is_over();
  bool meet(Word word);
  std::vector<WaitingCall> what_waits();
  std::vector<WaitingCall> told_by_all(const std::vector<Message>& messages);
  void judge_words(const std::vector<Message>& messages);
  void judge_time(const std::vector<WaitingCall>& all, std::size_t told_by_each);
  void launch(const RoundResult& agreed);
  std::exception_ptr difference_in(const RoundResult& agreed);
  void launch_first(int lane);
  void let_end();
  void fail(const std::exception_ptr& error);
  void say_failed() noexcept;
  void end_last_round() noexcept;
  OperationTag first_tag();

  const LaunchOrderOptions options_;
  const std::unique_ptr<Launches> launches_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int lanes_ = 0;
  std::map<int, std::deque<Waiting>> waiting_;  // by lane; none is empty
  bool has_news_ = false;                       // something was submitted since the last round
  bool closing_ = false;
  Clock::time_point closing_since_;
  bool abandoned_ = false;
  std::exception_ptr failure_;

  // The thread alone uses these.
  std::deque<UnderWay> under_way_;  // in order
  std::vector<WaitingCall> told_;   // of this rank, in the round that is open
  bool launched_last_ = false;
  int ended_rank_ = -1;  // one that has said its last word
  bool hosts_failed_ = false;
  Clock::time_point last_round_ = Clock::now();
  std::vector<Message> last_words_;  // of a rank that failed, and the answers
  Handle last_round_of_all_;

  const std::unique_ptr<Communicator> hosts_;  // goes before the memory of its last round
  std::thread thread_;  // started by the first call; last, since it uses all the above
};

}  // namespace zeroshard
