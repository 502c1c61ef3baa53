#include <utility>

#include "zeroshard/comm/control_end.h"

namespace zeroshard {
namespace {

constexpr std::chrono::milliseconds kPingEvery{500};
// A stopped process reads nothing; what it is sent piles up, so it is not sent more than this.
constexpr int kPingsUnanswered = 4;

}  // namespace

ControlHub::ControlHub(ControlBoard& board, int world_size, Socket listener, std::uint64_t token)
    : ControlEnd(board),
      token_(token),
      listener_(std::move(listener)),
      joined_(static_cast<std::size_t>(world_size)) {
  joined_[0] = true;
}

std::vector<int> ControlHub::wait_for_all(std::chrono::milliseconds limit) {
  const auto missing = [&] {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < joined_.size(); ++rank) {
      if (!joined_[rank]) ranks.push_back(static_cast<int>(rank));
    }
    return ranks;
  };
  std::unique_lock lock(joined_mutex_);
  joined_changed_.wait_for(lock, limit, [&] { return missing().empty(); });
  return missing();
}

void ControlHub::on_tick() {
  accept_newcomers();
  if (ControlPeer::Clock::now() - pinged_at_ >= kPingEvery) ping_all();
}

void ControlHub::accept_newcomers() {
  for (Socket socket = listener_.accept(); socket.open(); socket = listener_.accept()) {
    peers_.emplace_back(std::move(socket), token_);
  }
}

void ControlHub::ping_all() {
  pinged_at_ = ControlPeer::Clock::now();
  for (ControlPeer& peer : peers_) {
    if (peer.rank < 0 || peer.pings_unanswered >= kPingsUnanswered) continue;
    ++peer.pings_unanswered;
    peer.send({.kind = FrameKind::ping});
  }
}

void ControlHub::on_own(const ControlFrame& frame) {
  if (frame.kind == FrameKind::ask) {
    const std::vector<RankReport> all = reports();
    for (const RankReport& report : all) board_.add(report, &report == &all.back());
    return;
  }
  tell_all_but(0, frame);
}

void ControlHub::tell_all_but(int rank, const ControlFrame& frame) {
  for (ControlPeer& peer : peers_) {
    if (peer.rank >= 0 && peer.rank != rank) peer.send(frame);
  }
}

void ControlHub::on_frame(ControlPeer& peer, const ControlFrame& frame) {
  if (peer.rank < 0) return welcome(peer, frame);
  switch (frame.kind) {
    case FrameKind::status:
      peer.status = status_in(frame);
      peer.pings_unanswered = 0;
      return;
    case FrameKind::failed: return lose({.rank = peer.rank, .said_so = true});
    case FrameKind::goodbye:
      peer.said_goodbye = true;
      board_.note_end(peer.rank);
      return tell_all_but(peer.rank, {.kind = FrameKind::goodbye, .rank = peer.rank});
    case FrameKind::ask: return answer(peer);
    default: return;  // what only rank 0 says
  }
}

void ControlHub::answer(ControlPeer& asker) const {
  const std::vector<RankReport> all = reports();
  for (const RankReport& report : all) {
    ControlFrame frame = frame_of(FrameKind::report, report.rank, report.status);
    frame.silent_ms = static_cast<std::uint32_t>(report.silent_for.count());
    frame.last_report = &report == &all.back() ? 1 : 0;
    asker.send(frame);
  }
}

// Who does not begin with the hello of a rank that is missing is none of ours.
void ControlHub::welcome(ControlPeer& peer, const ControlFrame& hello) {
  const auto rank = static_cast<std::size_t>(hello.rank);
  {
    const std::lock_guard lock(joined_mutex_);
    if (hello.kind != FrameKind::hello || rank >= joined_.size() || joined_[rank]) {
      return peer.close();
    }
    joined_[rank] = true;
    peer.rank = hello.rank;
  }
  peer.send({.kind = FrameKind::ping});  // the first one is the welcome
  joined_changed_.notify_all();
}

void ControlHub::on_end(const ControlPeer& peer) {
  if (peer.rank >= 0 && !peer.said_goodbye) lose({.rank = peer.rank});
}

void ControlHub::lose(RankLoss loss) {
  board_.declare(loss);
  const FrameKind kind = loss.said_so ? FrameKind::failed : FrameKind::gone;
  tell_all_but(loss.rank, {.kind = kind, .rank = loss.rank});
}

std::vector<RankReport> ControlHub::reports() const {
  std::vector<RankReport> all{{.rank = 0, .status = board_.status()}};
  for (const ControlPeer& peer : peers_) {
    if (peer.rank < 0) continue;
    all.push_back({.rank = peer.rank, .status = peer.status, .silent_for = peer.silent_for()});
  }
  return all;
}

}  // namespace zeroshard
