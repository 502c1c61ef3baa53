#include "zeroshard/comm/control_end.h"

#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace zeroshard {
namespace {

// The loop looks at the clock this often.
constexpr int kTickMs = 250;

}  // namespace

ControlEnd::ControlEnd(ControlBoard& board)
    : board_(board), waker_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

ControlEnd::~ControlEnd() { close(waker_); }

void ControlEnd::run() {
  while (send_queued()) {
    wait_for_traffic();
    read_all();
    on_tick();
    look();
  }
}

void ControlEnd::queue(const ControlFrame& frame) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(frame);
  }
  eventfd_write(waker_, 1);
}

void ControlEnd::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  eventfd_write(waker_, 1);
}

void ControlEnd::set_watch(std::function<void()> watch) {
  const std::lock_guard lock(mutex_);
  watch_ = std::move(watch);
}

void ControlEnd::look() {
  std::function<void()> watch;
  {
    const std::lock_guard lock(mutex_);
    watch = watch_;
  }
  if (watch) watch();
}

void ControlEnd::wait_for_traffic() {
  std::vector<pollfd> watched{{waker_, POLLIN, 0}};
  if (listener() >= 0) watched.push_back({listener(), POLLIN, 0});
  for (const ControlPeer& peer : peers_) watched.push_back({peer.descriptor(), POLLIN, 0});
  poll(watched.data(), watched.size(), kTickMs);
  eventfd_t ignored = 0;
  eventfd_read(waker_, &ignored);
}

// The answer is false when it is time to stop and all has been said.
bool ControlEnd::send_queued() {
  std::vector<ControlFrame> frames;
  bool stopping = false;
  {
    const std::lock_guard lock(mutex_);
    frames.swap(queue_);
    stopping = stopping_;
  }
  for (const ControlFrame& frame : frames) on_own(frame);
  return !stopping;
}

void ControlEnd::read_all() {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    while (const auto frame = peer->receive()) on_frame(*peer, *frame);
    if (peer->open()) {
      ++peer;
    } else {
      on_end(*peer);
      peer = peers_.erase(peer);
    }
  }
}

ControlSpoke::ControlSpoke(ControlBoard& board, int rank, ControlPeer hub)
    : ControlEnd(board), rank_(rank) {
  hub.rank = 0;
  peers_.push_back(std::move(hub));
}

void ControlSpoke::on_own(const ControlFrame& frame) {
  for (ControlPeer& hub : peers_) hub.send(frame);
}

void ControlSpoke::on_frame(ControlPeer& hub, const ControlFrame& frame) {
  switch (frame.kind) {
    case FrameKind::ping: return hub.send(frame_of(FrameKind::status, rank_, board_.status()));
    case FrameKind::gone: return board_.declare({.rank = frame.rank});
    case FrameKind::failed: return board_.declare({.rank = frame.rank, .said_so = true});
    case FrameKind::goodbye:
      hub.said_goodbye = hub.said_goodbye || frame.rank == hub.rank;
      return board_.note_end(frame.rank);
    case FrameKind::report:
      return board_.add({.rank = frame.rank,
                         .status = status_in(frame),
                         .silent_for = std::chrono::milliseconds(frame.silent_ms)},
                        frame.last_report != 0);
    default: return;  // what only ranks say to rank 0
  }
}

void ControlSpoke::on_end(const ControlPeer& hub) {
  if (!hub.said_goodbye) board_.declare({.rank = 0});
}

}  // namespace zeroshard
