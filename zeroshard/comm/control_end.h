// The control channel's thread: one loop over its connections, and what rank 0 and the others do
// differently in it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "zeroshard/comm/control_board.h"
#include "zeroshard/comm/control_frame.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard {

class ControlEnd {
 public:
  virtual ~ControlEnd();
  ControlEnd(const ControlEnd&) = delete;
  ControlEnd& operator=(const ControlEnd&) = delete;

  // Runs until stop(); all the rest but queue() and stop() happens in here.
  void run();
  // Any thread may queue what this rank has to say.
  void queue(const ControlFrame& frame);
  void stop();
  // The channel's thread calls `watch` now and then.
  void set_watch(std::function<void()> watch);

 protected:
  explicit ControlEnd(ControlBoard& board);

  // This descriptor is watched besides the connections, unless it is -1.
  virtual int listener() const { return -1; }
  virtual void on_tick() = 0;
  virtual void on_own(const ControlFrame& frame) = 0;
  virtual void on_frame(ControlPeer& peer, const ControlFrame& frame) = 0;
  virtual void on_end(const ControlPeer& peer) = 0;

  ControlBoard& board_;
  std::list<ControlPeer> peers_;

 private:
  void wait_for_traffic();
  void look();
  bool send_queued();
  void read_all();

  int waker_;  // an eventfd
  std::mutex mutex_;
  std::vector<ControlFrame> queue_;
  bool stopping_ = false;
  std::function<void()> watch_;
};

// Rank 0's end, to which everybody is connected.
class ControlHub final : public ControlEnd {
 public:
  ControlHub(ControlBoard& board, int world_size, Socket listener, std::uint64_t token);
  // The answer names the ranks that have not joined when the time is over.
  std::vector<int> wait_for_all(std::chrono::milliseconds limit);

 private:
  int listener() const override { return listener_.descriptor(); }
  void on_tick() override;
  void on_own(const ControlFrame& frame) override;
  void on_frame(ControlPeer& peer, const ControlFrame& frame) override;
  void on_end(const ControlPeer& peer) override;

  void accept_newcomers();
  void welcome(ControlPeer& peer, const ControlFrame& hello);
  void ping_all();
  void lose(RankLoss loss);
  void tell_all_but(int rank, const ControlFrame& frame);
  std::vector<RankReport> reports() const;
  void answer(ControlPeer& asker) const;

  const std::uint64_t token_;
  Socket listener_;
  ControlPeer::Clock::time_point pinged_at_ = {};
  std::mutex joined_mutex_;
  std::condition_variable joined_changed_;
  std::vector<bool> joined_;  // by rank
};

// Every other rank's end, which is connected to rank 0.
class ControlSpoke final : public ControlEnd {
 public:
  // `hub` has been greeted, and has answered.
  ControlSpoke(ControlBoard& board, int rank, ControlPeer hub);

 private:
  void on_tick() override {}
  void on_own(const ControlFrame& frame) override;
  void on_frame(ControlPeer& peer, const ControlFrame& frame) override;
  void on_end(const ControlPeer& peer) override;

  const int rank_;
};

}  // namespace zeroshard
